#include "wmtp/run/evaluate.h"

#include "wmtp/run/data/step_reader.h"
#include "wmtp/run/report/batch_view.h"

namespace wmtp::run {

training::Numbers evaluate(const EvaluatedParts& parts, comm::Communicator& group,
                           const TellBatches& tell) {
  StepReader reader(parts.data.validation_loader(),
                    {static_cast<int>(parts.plan.assemble.model.n_future),
                     parts.model.inv_freq(),
                     {},
                     parts.signals.validation()});
  training::Totals totals = parts.model.step().make_totals();
  const std::int64_t num_batches = parts.data.num_validation_batches();
  std::int64_t num_done = 0;
  tell(num_done, num_batches);
  while (const auto next = reader.next_evaluation()) {
    if (num_done == 0) parts.model.objective().begin_evaluation(next->facts);
    parts.model.runtime().begin_evaluation();
    parts.model.objective().evaluate(next->batch, totals);
    tell(++num_done, num_batches);
  }
  const training::Numbers numbers = parts.model.objective().finish_evaluation(totals, group);
  parts.signals.write(parts.signals.mark());
  return numbers;
}

void show_sample(const EvaluatedParts& parts, std::int64_t step, RunReport* report) {
  const bool from_validation = parts.data.validation() != nullptr;
  StepReader reader(from_validation ? parts.data.validation_loader()
                                    : parts.data.train_loader(parts.data.train().cursor_at(0, 0)),
                    {static_cast<int>(parts.plan.assemble.model.n_future),
                     parts.model.inv_freq(),
                     {},
                     from_validation ? parts.signals.validation() : parts.signals.train()});
  const auto next = reader.next_evaluation();
  if (!next) return;
  parts.model.runtime().begin_evaluation(/*kind=*/2);
  const training::TokenMarks marks = parts.model.objective().view(next->batch);
  if (report)
    report->sample(step, {next->batch, marks, from_validation ? "validation" : "train"},
                   parts.data.tokenizer());
}

}  // namespace wmtp::run

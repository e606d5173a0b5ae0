#include "wmtp/run/data/step_reader.h"

#include "wmtp/core/error.h"
#include "wmtp/tensor/profile_scope.h"

namespace wmtp::run {
namespace {

training::StepFacts facts_of(const data::HostBatch& host) {
  training::StepFacts facts;
  facts.head_targets.assign(host.step_head_targets.begin(), host.step_head_targets.end());
  facts.num_sequences = host.step_sequences;
  facts.num_pairs = host.step_pairs;
  facts.num_response_tokens = host.step_response_tokens;
  if (host.scope_targets) facts.scope_targets = *host.scope_targets;
  return facts;
}

// Whose samples a step sees, and how many tokens people gave with them (with the sum of squared
// lengths: what rates are counted in).
void add_documents(const data::HostBatch& host, ReadStep& read) {
  for (std::size_t d = 0; d < host.num_docs(); ++d) {
    if (host.doc_flags[d] & data::kDocFiller) continue;
    const auto length = static_cast<double>(host.doc_len[d]);
    read.input.num_tokens += length;
    read.input.squared_lengths += length * length;
    read.sample_ids.push_back(host.sample_id[d]);
  }
}

}  // namespace

// Signals are looked up here and not by the loader's threads: which rows a run has kept by a step
// then follows from its order alone.
training::DeviceBatch StepReader::upload_batch(data::HostBatch& host, std::int64_t step) const {
  const SignalSource& signals = options_.signals;
  if (signals.cache && signals.read)
    (signals.values ? host.value : host.ref_nll) = signals.cache->find(host);
  training::UploadOptions options;
  options.num_heads = options_.num_heads;
  options.inv_freq_F = options_.inv_freq_F;
  options.shape = options_.shape;
  options.dropout = options_.dropout;
  if (options.dropout) options.dropout->step = step;
  training::DeviceBatch batch = training::upload_batch(host, options);
  batch.signal_cache = signals.cache;
  batch.signal_rows = data::signal_rows(host);
  return batch;
}

std::optional<data::HostBatch> StepReader::next_on_host() {
  const ProfileScope scope("data wait");
  return loader_->next();
}

std::optional<ReadStep> StepReader::next(std::int64_t step) {
  ReadStep read;
  for (;;) {
    std::optional<data::HostBatch> host = next_on_host();
    if (!host) {
      WMTP_CHECK(read.input.micro_batches.empty(), "the loader ended inside a step");
      return std::nullopt;
    }
    {
      const ProfileScope scope("upload");
      read.input.micro_batches.push_back(upload_batch(*host, step));
    }
    add_documents(*host, read);
    if (!host->is_last_of_step()) continue;
    read.input.facts = facts_of(*host);
    read.input.facts.step = step;
    read.cursor_after = host->cursor_after;
    return read;
  }
}

std::optional<StepReader::EvaluationBatch> StepReader::next_evaluation() {
  std::optional<data::HostBatch> host = loader_->next();
  if (!host) return std::nullopt;
  return EvaluationBatch{upload_batch(*host, 0), facts_of(*host)};
}

}  // namespace wmtp::run

#include "wmtp/run/report/batch_view.h"

#include <fmt/format.h>

#include "wmtp/data/plan/host_batch.h"
#include "wmtp/tokenizer/stream_decoder.h"

namespace wmtp::run {
namespace {

std::vector<double> on_host(const Tensor& values_N) {
  if (!values_N.defined()) return {};
  const Tensor host = values_N.to(at::kCPU, at::kDouble).contiguous();
  return {host.const_data_ptr<double>(), host.const_data_ptr<double>() + host.numel()};
}

struct HostMarks {
  explicit HostMarks(const training::TokenMarks& marks)
      : weights(on_host(marks.weight_N)), values(on_host(marks.value_N)) {
    for (const Tensor& of_head : marks.selected_by_head_N) selected.push_back(on_host(of_head));
  }

  std::vector<double> weights, values;        // empty: the stage has none
  std::vector<std::vector<double>> selected;  // by head
};

struct Extent {
  std::size_t begin = 0, end = 0;
};

Extent document(const training::DeviceBatch& batch, std::size_t number) {
  return {static_cast<std::size_t>(batch.doc_start[number]),
          static_cast<std::size_t>(batch.doc_start[number + 1])};
}

// What head `head` (from 0) learns from in the whole batch.
std::vector<double> at_targets(const training::DeviceBatch& batch,
                               const std::vector<double>& of_tokens, std::size_t head) {
  std::vector<double> found;
  for (std::size_t d = 0; d + 1 < batch.doc_start.size(); ++d) {
    const Extent place = document(batch, d);
    for (std::size_t i = place.begin + head + 1; i < place.end; ++i)
      if (batch.mask[i] != 0) found.push_back(of_tokens[i]);
  }
  return found;
}

void add_weights(std::int64_t step, const training::DeviceBatch& batch, const HostMarks& marks,
                 std::vector<tracking::Histogram>& histograms) {
  if (marks.selected.empty()) {
    const std::vector<double> weights = at_targets(batch, marks.weights, 0);
    if (!weights.empty()) histograms.push_back(tracking::make_histogram("weight", step, weights));
    return;
  }
  std::vector<double> of_all;
  std::vector<tracking::Histogram> by_head;
  for (std::size_t head = 0; head < marks.selected.size(); ++head) {
    const std::vector<double> weights = at_targets(batch, marks.selected[head], head);
    if (weights.empty()) continue;
    of_all.insert(of_all.end(), weights.begin(), weights.end());
    by_head.push_back(
        tracking::make_histogram(fmt::format("weight of head {}", head + 1), step, weights));
  }
  if (of_all.empty()) return;
  histograms.push_back(tracking::make_histogram("weight", step, of_all));
  if (marks.selected.size() > 1)
    histograms.insert(histograms.end(), by_head.begin(), by_head.end());
}

}  // namespace

std::vector<tracking::DecodedSample> decoded_documents(const training::DeviceBatch& batch,
                                                       const training::TokenMarks& marks,
                                                       const tokenizer::Tokenizer& tokenizer,
                                                       std::size_t most) {
  const HostMarks host(marks);
  std::vector<tracking::DecodedSample> samples;
  for (std::size_t d = 0; d + 1 < batch.doc_start.size() && samples.size() < most; ++d) {
    if (batch.sample_ids[d] == data::kFillerId) continue;
    tracking::DecodedSample& sample = samples.emplace_back();
    sample.id = batch.sample_ids[d];
    if (d < batch.correct.size()) sample.correct = batch.correct[d];
    const Extent place = document(batch, d);
    const std::vector<std::string> texts = tokenizer::token_texts(
        tokenizer, std::span(batch.tokens).subspan(place.begin, place.end - place.begin));
    for (std::size_t i = place.begin; i < place.end; ++i) {
      tracking::SampleToken token;
      token.text = texts[i - place.begin];
      token.is_target = batch.mask[i] != 0 && i > place.begin;
      token.weight = !token.is_target ? 0 : host.weights.empty() ? 1 : host.weights[i];
      if (!host.values.empty() && batch.mask[i] != 0) token.value = host.values[i];
      for (const auto& of_head : host.selected) token.selected.push_back(of_head[i] > 0);
      sample.tokens.push_back(std::move(token));
    }
  }
  return samples;
}

std::vector<tracking::Histogram> batch_histograms(std::int64_t step,
                                                  const training::DeviceBatch& batch,
                                                  const training::TokenMarks& marks) {
  const HostMarks host(marks);
  std::vector<tracking::Histogram> histograms;
  if (!host.weights.empty()) add_weights(step, batch, host, histograms);
  std::vector<double> values;
  for (std::size_t i = 0; i < batch.mask.size() && !host.values.empty(); ++i)
    if (batch.mask[i] != 0) values.push_back(host.values[i]);
  if (!values.empty()) histograms.push_back(tracking::make_histogram("value", step, values));
  return histograms;
}

}  // namespace wmtp::run

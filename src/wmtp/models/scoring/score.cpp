// N tokens of all rows end to end, M rows with a target, F rotary frequencies.
#include "wmtp/models/scoring/score.h"

#include <ATen/ops/empty.h>

#include <deque>
#include <numeric>

#include "wmtp/core/error.h"
#include "wmtp/models/rope_frequencies.h"
#include "wmtp/models/upload.h"

namespace wmtp::models {
namespace {

model::TransformerOptions with_lora(const std::optional<model::LoraConfig>& lora) {
  model::TransformerOptions options;
  options.lora = lora;
  return options;
}

struct Packed {
  std::vector<std::int32_t> tokens, positions, doc_start{0};
  std::vector<std::uint8_t> target_mask;
  TokenView view() const { return {tokens, positions, doc_start, target_mask}; }
};

Packed pack(std::span<const TokenRow> rows) {
  Packed packed;
  for (const TokenRow& row : rows) {
    if (row.ids.empty()) continue;
    packed.tokens.insert(packed.tokens.end(), row.ids.begin(), row.ids.end());
    for (std::size_t i = 0; i < row.ids.size(); ++i) {
      packed.positions.push_back(static_cast<std::int32_t>(i));
      packed.target_mask.push_back(i >= row.prompt_len);
    }
    packed.doc_start.push_back(static_cast<std::int32_t>(packed.tokens.size()));
  }
  return packed;
}

// Hands the head's losses, which lie in row order, out to the rows.
void spread(const Tensor& nll_M, std::span<const TokenRow> rows, std::size_t head,
            std::vector<ByTarget>& scores) {
  const Tensor host_M = nll_M.to(at::kCPU, at::kFloat).contiguous();
  const float* value = host_M.const_data_ptr<float>();
  for (std::size_t r = 0; r < rows.size(); ++r)
    for (std::size_t i = 0; i + head + 1 < rows[r].ids.size(); ++i)
      if (i + head + 1 >= rows[r].prompt_len) scores[r][head][i] = *value++;
  WMTP_CHECK(value == host_M.const_data_ptr<float>() + host_M.numel(),
             "a head's losses do not match its targets");
}

}  // namespace

Scorer::Scorer(const ModelSource& source, DType dtype, c10::Device device)
    : config_(source.config),
      weights_(source.units(), dtype, device, /*with_grads=*/false),
      transformer_(config_, weights_, nullptr, with_lora(source.lora)),
      inv_freq_F_(rope_frequencies(config_, dtype, device)) {
  weights_.fill(source.fill);
}

std::vector<ByTarget> Scorer::score(std::span<const TokenRow> rows, int num_heads) {
  std::vector<ByTarget> scores;
  for (const TokenRow& row : rows)
    scores.emplace_back(static_cast<std::size_t>(num_heads),
                        std::vector<std::optional<float>>(row.ids.size()));
  const Packed packed = pack(rows);
  const auto counts = count_targets(packed.view(), num_heads);
  if (std::accumulate(counts.begin(), counts.end(), std::int64_t{0}) == 0) return scores;
  const model::Batch batch = upload_tokens(packed.view(), num_heads, inv_freq_F_);
  const model::TrunkPass trunk = transformer_.forward_trunk(batch);
  for (int head = 0; head < num_heads; ++head) {
    if (counts[static_cast<std::size_t>(head)] == 0) continue;
    const model::HeadPass pass = transformer_.forward_head(trunk, batch, head);
    spread(transformer_.nll(trunk, pass, batch), rows, static_cast<std::size_t>(head), scores);
  }
  return scores;
}

namespace {

// Rows in order, cut into micro-batches the same way whoever asks.
class BatchReader {
 public:
  BatchReader(TokenRowSource& source, std::int64_t batch_tokens)
      : source_(source), batch_tokens_(static_cast<std::size_t>(batch_tokens)) {}

  // Empty at the end.
  std::vector<TokenRow> next() {
    while (more_ && num_waiting_tokens_ <= batch_tokens_) read_on();
    std::vector<TokenRow> batch;
    std::size_t num_tokens = 0;
    while (!waiting_.empty() &&
           (batch.empty() || num_tokens + waiting_.front().ids.size() <= batch_tokens_)) {
      num_tokens += waiting_.front().ids.size();
      batch.push_back(std::move(waiting_.front()));
      waiting_.pop_front();
    }
    num_waiting_tokens_ -= num_tokens;
    return batch;
  }

 private:
  void read_on() {
    std::vector<TokenRow> rows;
    more_ = source_.next(rows);
    for (TokenRow& row : rows) {
      num_waiting_tokens_ += row.ids.size();
      waiting_.push_back(std::move(row));
    }
  }

  TokenRowSource& source_;
  std::size_t batch_tokens_, num_waiting_tokens_ = 0;
  std::deque<TokenRow> waiting_;
  bool more_ = true;
};

}  // namespace

ScoreSummary score_rows(Scorer& scorer, TokenRowSource& source, comm::Communicator& group,
                        const ScoreOptions& options, const WriteLine& write) {
  BatchReader reader(source, options.batch_tokens);
  ScoreSummary summary;
  std::uint64_t num_rows = 0;
  for (bool more = true; more;) {
    std::string message;
    const std::uint64_t num_before = num_rows;
    for (int rank = 0; rank < group.world() && more; ++rank) {
      const std::vector<TokenRow> rows = reader.next();
      more = !rows.empty();
      if (rank == group.rank()) {
        std::vector<ByTarget> scores = scorer.score(rows, options.num_heads);
        for (std::size_t r = 0; r < rows.size(); ++r) {
          ScoredRow scored;
          scored.row = num_rows + r;
          scored.ids = rows[r].ids;
          scored.nll = std::move(scores[r]);
          append_line(message, scored);
        }
      }
      num_rows += rows.size();
    }
    if (num_rows == num_before) break;
    const auto messages = group.gather_bytes(message, 0, "score");
    if (group.rank() == 0) put_out(messages, summary, write);
  }
  return summary;
}

}  // namespace wmtp::models

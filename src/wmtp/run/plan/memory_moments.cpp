#include "wmtp/run/plan/memory_moments.h"

#include <algorithm>

namespace wmtp::run {
namespace {

using Moment = MemoryPlan::Moment;

// All that the moments of the trained model are made of, in bytes.
class PolicyStep {
 public:
  PolicyStep(const MemoryRequest& request, const UnitMemory& units)
      : request_(request),
        units_(units),
        shape_{.model = request.model,
               .dtype = request.parallel.param_dtype,
               .tokens = request.tokens,
               .on_gpu = request.on_gpu(),
               .lora = request.lora,
               .loss_chunk_rows = request.loss_chunk_rows,
               .packed_cudnn = request.packed_cudnn,
               .stored_score_bytes = request.stored_score_bytes,
               .float8 = request.float8},
        num_trunk_(request.model.num_trunk_blocks()) {
    const std::vector<layout::UnitSpec> specs = planned_units(request);
    ReadInputs last = kAllInputs;
    for (std::int64_t i = 0; i < num_trunk_ && !request.frozen; ++i) {
      last = read_inputs(specs.at(static_cast<std::size_t>(1 + i)));
      const std::int64_t kept = block(request.recompute, last).kept;
      (i + 1 < num_trunk_ ? kept_before_last_ : kept_by_last_) += kept;
    }
    trunk_ = block(request.recompute, last);
    if (request.parallel.frees_grads) add_grads();
    // A head is never recomputed; all of them are alike.
    if (has_head_blocks() && request.heads)
      head_ = block(model::Recompute::none,
                    read_inputs(specs.at(static_cast<std::size_t>(1 + num_trunk_))));
  }

  // The last block, when the output is there. Unless the block before it keeps what both add up,
  // that is alive too.
  Moment trunk_forward() const {
    const bool keeps_stream = !request_.frozen && request_.recompute != model::Recompute::block;
    const std::int64_t before = num_trunk_ > 1 && !keeps_stream ? trunk_.hidden : 0;
    return moment("trunk forward",
                  {{kGradientsRow, root_grads_},
                   {kTrunk, kept_before_last_},
                   {kBlock, num_trunk_ > 0 ? trunk_.forward + before : trunk_.hidden}});
  }

  Moment value_head() const {
    const std::int64_t gradient = request_.frozen ? 0 : trunk_.hidden;
    return moment("value head",
                  {{kGradientsRow, root_grads_ + value_grads_},
                   {kTrunk, kept_before_last_ + kept_by_last_},
                   {kHidden, trunk_.hidden + gradient},
                   {"value head at work", value_head_bytes(shape_, *request_.value_head,
                                                           /*learns=*/true)}});
  }

  Moment head_logits() const {
    return moment("logits of a prediction head",
                  {{kGradientsRow, grads_at_heads()},
                   {kTrunk, kept_before_last_ + kept_by_last_},
                   {kHidden, hidden_at_head()},
                   {"the head's block", has_head_blocks() ? head_.kept - head_.hidden : 0},
                   {"one chunk of logits", loss_chunk_bytes(shape_, /*gradient=*/true)}});
  }

  // A plain model has no block there: the gradient of the rows is spread over all tokens.
  Moment head_backward() const {
    const std::int64_t more = has_head_blocks() ? 1 : 2;
    return moment("backward of a prediction head",
                  {{kGradientsRow, grads_at_heads()},
                   {kTrunk, kept_before_last_ + kept_by_last_},
                   {kHidden, hidden_at_head() + more * trunk_.hidden},
                   {kBlock, has_head_blocks() ? head_.head_backward : 0}});
  }

  Moment first_trunk_backward() const {
    return moment("first trunk backward", {{kGradientsRow, grads_at_heads() + last_block_grads_},
                                           {kTrunk, kept_before_last_},
                                           {kHidden, trunk_.hidden},
                                           {kBlock, trunk_.backward}});
  }

  Moment last_trunk_backward() const {
    return moment("last trunk backward", {{kGradientsRow, all_grads_},
                                          {kHidden, trunk_.hidden},
                                          {kBlock, trunk_.backward},
                                          {kWire, units_.wire_copies}});
  }

  Moment embedding_backward() const {
    return moment("embedding backward", {{kGradientsRow, all_grads_},
                                         {kHidden, trunk_.hidden},
                                         {kWire, units_.wire_copies + units_.root_wire_copy}});
  }

  // Beside it the next step's root is gathered, which Gloo does in a copy of its own; what was
  // freed before stays with a process that computes on a CPU (tensor/host_memory.h).
  Moment update(std::int64_t freed) const {
    const std::int64_t copy = request_.on_gpu() ? 0 : units_.gathered_root;
    return moment("update", {{kGradientsRow, all_grads_},
                             {"copy of the root's gather under way (Gloo)", copy},
                             {"freed activations, kept by the process", copy > 0 ? freed : 0}});
  }

  bool has_trunk() const { return num_trunk_ > 0; }
  // Of the step before, whose updates nobody has waited for yet.
  MemoryPlan::Row pending_grads() const { return {kGradientsRow, all_grads_}; }

 private:
  static constexpr const char* kTrunk = "activations kept by the trunk";
  static constexpr const char* kHidden = "hidden states and their gradients";
  static constexpr const char* kBlock = "one block at work";
  static constexpr const char* kWire = "gradients on their way in another dtype";

  static Moment moment(std::string name, std::vector<MemoryPlan::Row> rows) {
    std::erase_if(rows, [](const MemoryPlan::Row& row) { return row.bytes == 0; });
    return {std::move(name), std::move(rows)};
  }

  bool has_head_blocks() const { return request_.model.n_future > 1; }

  // Units in their order: the root, the trunk's blocks, those of the heads, the value head.
  void add_grads() {
    for (std::size_t u = 0; u < units_.grads.size(); ++u) {
      const auto block = static_cast<std::int64_t>(u) - 1;
      const std::int64_t bytes = units_.grads[u];
      all_grads_ += bytes;
      if (u == 0) root_grads_ = bytes;
      if (block == num_trunk_ - 1) last_block_grads_ = bytes;
      if (block >= num_trunk_)
        (block < request_.model.num_blocks ? head_grads_ : value_grads_) += bytes;
    }
  }

  // The last head finds those before it.
  std::int64_t grads_at_heads() const { return root_grads_ + value_grads_ + head_grads_; }

  // The trunk's output, its gradient where a head or the value head has been before, and around the
  // final norm its input, its output and the gradient of that.
  std::int64_t hidden_at_head() const {
    const bool has_gradient = has_head_blocks() || request_.value_head;
    return trunk_.hidden * (1 + (has_gradient ? 1 : 0) + 3);
  }

  BlockMemory block(model::Recompute level, const ReadInputs& reads) const {
    WorkShape shape = shape_;
    shape.recompute = level;
    shape.reads = reads;
    return block_memory(shape);
  }

  const MemoryRequest& request_;
  const UnitMemory& units_;
  WorkShape shape_;
  std::int64_t num_trunk_;
  BlockMemory trunk_ = {};  // its last block
  BlockMemory head_ = {};
  std::int64_t kept_before_last_ = 0, kept_by_last_ = 0;  // by blocks of the trunk
  // Gradients that come and go.
  std::int64_t root_grads_ = 0, last_block_grads_ = 0, head_grads_ = 0, value_grads_ = 0,
               all_grads_ = 0;
};

// The frozen model reads the same tokens and keeps nothing.
Moment frozen_forward(const MemoryRequest& request, const MemoryPlan::Row& pending_grads) {
  const FrozenRequest& other = *request.other;
  const WorkShape shape{.model = other.model,
                        .dtype = other.dtype,
                        .tokens = request.tokens,
                        .on_gpu = request.on_gpu(),
                        .loss_chunk_rows = request.loss_chunk_rows};
  const BlockMemory block = block_memory(shape);
  const std::int64_t trunk = block.forward + block.hidden;
  const std::int64_t end = other.logits
                               ? 3 * block.hidden + loss_chunk_bytes(shape, /*gradient=*/false)
                               : block.hidden + value_head_bytes(shape, model::ValueHeadType::mlp,
                                                                 /*learns=*/false);
  std::vector<MemoryPlan::Row> rows{{"frozen model at work", std::max(trunk, end)}};
  if (pending_grads.bytes > 0) rows.insert(rows.begin(), pending_grads);
  return {"frozen model's forward", std::move(rows)};
}

}  // namespace

std::vector<Moment> step_moments(const MemoryRequest& request, const UnitMemory& units) {
  const PolicyStep step(request, units);
  std::vector<Moment> moments;
  if (!request.on_gpu() && units.widest_read > 0)
    moments.push_back(
        {"reading the weights", {{"one parameter on its way to fewer bits", units.widest_read}}});
  if (request.other) moments.push_back(frozen_forward(request, step.pending_grads()));
  moments.push_back(step.trunk_forward());
  if (request.value_head) moments.push_back(step.value_head());
  if (request.heads) {
    moments.push_back(step.head_logits());
    moments.push_back(step.head_backward());
  }
  if (!request.frozen) {
    if (step.has_trunk()) {
      moments.push_back(step.first_trunk_backward());
      moments.push_back(step.last_trunk_backward());
    }
    moments.push_back(step.embedding_backward());
  }
  const auto most = std::ranges::max_element(moments, {}, &Moment::bytes);
  moments.push_back(step.update(most->bytes()));
  return moments;
}

}  // namespace wmtp::run

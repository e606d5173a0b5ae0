#include "wmtp/run/plan/speed/step_work.h"

#include <algorithm>

#include "wmtp/run/plan/speed/block_work.h"
#include "wmtp/tensor/dtype.h"

namespace wmtp::run {
namespace {

double element_size(DType dtype) {
  return static_cast<double>(element_bytes(dtype));
}

double trained_of(const layout::UnitSpec& unit) {
  double sum = 0;
  for (const layout::ParamSpec& param : unit.params)
    if (param.trained) sum += static_cast<double>(param.numel());
  return sum;
}

double in_bytes_of(const layout::UnitSpec& unit) {
  double sum = 0;
  for (const layout::ParamSpec& param : unit.params)
    if (param.float8_matrix != 0) sum += static_cast<double>(param.numel());
  return sum;
}

// Read in 4 bits with their scales, written to a slot.
double nf4_pass_bytes(const layout::UnitSpec& unit, double compute_bytes) {
  constexpr double kNf4Bytes = 0.51587;
  double sum = 0;
  for (const layout::ParamSpec& param : unit.params)
    if (param.quantized) sum += static_cast<double>(param.numel()) * (kNf4Bytes + compute_bytes);
  return sum;
}

class StepWriter {
 public:
  StepWriter(const SpeedRequest& request, const DeviceModel& device, int group)
      : request_(request),
        shape_(request.shape),
        device_(device),
        group_(group),
        compute_bytes_(element_size(shape_.parallel.param_dtype)),
        tokens_(static_cast<double>(shape_.tokens)),
        rows_(tokens_ * request.targets_per_token / static_cast<double>(shape_.model.n_future)) {}

  StepWork write();

 private:
  OperationCosts costs() const { return {device_, compute_bytes_}; }
  BlockWork block_of(const layout::UnitSpec& spec, bool head) const;
  void add_block(const layout::UnitSpec& spec, UnitWork& unit, bool head);
  void add_head(OperationCosts& costs) const;
  void add_runtime(const layout::UnitSpec& spec, UnitWork& unit) const;
  void add_value_head(const layout::UnitSpec& spec, StepWork& work) const;
  OperationSeconds frozen_model() const;
  OperationSeconds update(const std::vector<UnitWork>& units) const;

  const SpeedRequest& request_;
  const MemoryRequest& shape_;
  const DeviceModel& device_;
  double group_, compute_bytes_, tokens_, rows_;
};

BlockWork StepWriter::block_of(const layout::UnitSpec& spec, bool head) const {
  BlockWork work{.model = shape_.model,
                 .tokens = tokens_,
                 .rows = head ? rows_ : tokens_,
                 .span = request_.span,
                 .float8 = shape_.float8};
  set_learning(spec, work);
  work.drops_out = shape_.lora && shape_.lora->dropout > 0;
  return work;
}

// The final norm and the loss of one head.
void StepWriter::add_head(OperationCosts& costs) const {
  const auto width = static_cast<double>(shape_.model.dim);
  costs.elements(Pass::norm, 4 * rows_ * width);
  loss({.rows = rows_,
        .vocabulary = static_cast<double>(shape_.model.vocab_size),
        .width = width,
        .backward = !shape_.frozen,
        .learns = !shape_.frozen && !shape_.lora},
       costs);
  if (!shape_.frozen) costs.elements(Pass::norm_backward, 4 * rows_ * width);
}

void StepWriter::add_block(const layout::UnitSpec& spec, UnitWork& unit, bool head) {
  const BlockWork work = block_of(spec, head);
  const model::Recompute level = head ? model::Recompute::none : shape_.recompute;
  OperationCosts forward = costs(), backward = costs();
  block_forward(work, !shape_.frozen && level == model::Recompute::none, forward);
  if (head) add_head(forward);
  if (!shape_.frozen) block_backward(work, level, backward);
  if (head) backward.elements(Pass::copy, 3 * tokens_ * static_cast<double>(shape_.model.dim));
  unit.forward += forward.sum();
  unit.backward += backward.sum();
}

// What Gatherer and Reducer do of their own: masters in one tensor and matrices in NF4 to the
// compute dtype, masters to float8, slots cleared, shards brought home. NO_SHARD has its optimizer
// write the copy, but none of float8.
void StepWriter::add_runtime(const layout::UnitSpec& spec, UnitWork& unit) const {
  const parallel::ParallelOptions& options = shape_.parallel;
  const bool copied_by_update = options.strategy == parallel::Strategy::no_shard;
  const double master_bytes = element_size(options.master_dtype);
  OperationCosts forward = costs(), backward = costs();
  double cast = unit.in_bytes / group_ * (master_bytes + 1);
  const bool casts = !copied_by_update && master_bytes != compute_bytes_ && !spec.full_precision &&
                     !options.splits(spec.full_precision);
  if (casts && cast <= 0) cast = unit.trained / group_ * (master_bytes + compute_bytes_);
  if (cast > 0) {
    forward.pass(Pass::copy, cast);
    if (!unit.kept && !unit.head && options.strategy != parallel::Strategy::shard_grad_op)
      backward.pass(Pass::copy, cast);
  }
  if (const double whole = nf4_pass_bytes(spec, compute_bytes_); whole > 0) {
    const double own = whole / (options.shards_frozen() ? group_ : 1);
    forward.pass(Pass::copy, own);
    if (!unit.head) backward.pass(Pass::copy, own);
  }
  if (group_ > 1) {
    backward.pass(Pass::copy, unit.trained * element_size(options.reduce_dtype));
    backward.pass(Pass::copy, unit.trained / group_ * 8);
  }
  unit.forward += forward.sum();
  unit.backward += backward.sum();
}

void StepWriter::add_value_head(const layout::UnitSpec& spec, StepWork& work) const {
  OperationCosts costs(device_, 4);
  for (const layout::ParamSpec& param : spec.params) {
    if (param.shape.size() != 2) continue;
    const auto outputs = static_cast<double>(param.shape[0]),
               inputs = static_cast<double>(param.shape[1]);
    costs.product(tokens_, outputs, inputs);
    costs.product(tokens_, inputs, outputs);
    costs.product(outputs, inputs, tokens_);
    costs.elements(Pass::copy, 6 * tokens_ * outputs);
  }
  costs.elements(Pass::norm, 3 * tokens_ * static_cast<double>(shape_.model.dim));
  work.value += costs.sum();
}

// A model that is only read: its forward, in its own compute dtype.
OperationSeconds StepWriter::frozen_model() const {
  if (!shape_.other) return {};
  const FrozenRequest& other = *shape_.other;
  const auto width = static_cast<double>(other.model.dim);
  OperationCosts costs(device_, element_size(other.dtype));
  const double blocks = static_cast<double>(other.model.num_blocks);
  block_forward({.model = other.model, .tokens = tokens_, .rows = tokens_, .span = request_.span},
                /*keeps=*/false, costs);
  OperationSeconds sum = costs.sum() * blocks;
  OperationCosts rest(device_, element_size(other.dtype));
  rest.elements(Pass::norm, 4 * tokens_ * width);
  for (const layout::UnitSpec& unit : other.units)
    if (const double whole = nf4_pass_bytes(unit, element_size(other.dtype)); whole > 0)
      rest.pass(Pass::copy, whole / (other.shard ? group_ : 1));
  if (other.logits)
    loss({.rows = rows_,
          .vocabulary = static_cast<double>(other.model.vocab_size),
          .width = width,
          .backward = false},
         rest);
  sum += rest.sum();
  return sum;
}

struct Update {
  Pass pass;
  double bytes;  // of an element, read and written
};

// Drawing the random numbers is what takes the time where moments are rounded, whatever the master
// is kept in.
Update update_of(const MemoryRequest& shape) {
  if (shape.recipe == optim::Recipe::int8) return {Pass::adamw_8bit, 12};
  if (shape.recipe == optim::Recipe::bf16_moments || shape.parallel.master_dtype != kFloat32)
    return {Pass::adamw_rounded, 16};
  return {Pass::adamw, 28};
}

// Gradients are cleared where they lie, their norm is taken, AdamW runs over the shard, and the
// largest magnitudes of what will be float8 are taken of the masters.
OperationSeconds StepWriter::update(const std::vector<UnitWork>& units) const {
  const parallel::ParallelOptions& options = shape_.parallel;
  const Update one = update_of(shape_);
  const bool writes_copy = options.strategy == parallel::Strategy::no_shard &&
                           options.master_dtype != options.param_dtype &&
                           !options.splits(/*full_precision=*/false);
  OperationCosts costs(device_, 4);
  OperationSeconds offloaded;
  for (const UnitWork& unit : units) {
    const double shard = unit.trained / group_;
    if (options.offloads()) {
      offloaded += {.passes = shard * device_.offload_s_per_parameter, .calls = 1};
      continue;
    }
    if (group_ == 1) costs.pass(Pass::copy, 4 * shard);
    costs.pass(Pass::grad_norm, 4 * shard);
    const bool copies = writes_copy && unit.in_bytes <= 0;
    costs.pass(one.pass, (one.bytes + (copies ? compute_bytes_ : 0)) * shard);
    costs.pass(Pass::grad_norm, element_size(options.master_dtype) * unit.in_bytes / group_);
  }
  return options.offloads() ? offloaded : costs.sum();
}

StepWork StepWriter::write() {
  const bool has_heads = shape_.model.n_future > 1;
  const auto width = static_cast<double>(shape_.model.dim);
  StepWork work;
  std::int64_t block = -1;  // the root comes first
  for (const layout::UnitSpec& spec : planned_units(shape_)) {
    UnitWork unit;
    unit.kept = spec.kept;
    unit.trained = trained_of(spec);
    unit.in_bytes = in_bytes_of(spec);
    unit.head = !spec.kept && has_heads && block >= shape_.model.num_trunk_blocks();
    unit.gather_bytes =
        (shape_.parallel.shards_frozen() ? static_cast<double>(spec.numel()) : unit.trained) *
        (spec.full_precision ? 4
         : unit.in_bytes > 0 ? 1
                             : compute_bytes_);
    unit.reduce_bytes =
        unit.trained * (spec.full_precision ? 4 : element_size(shape_.parallel.reduce_dtype));
    if (spec.full_precision) {
      add_value_head(spec, work);
    } else if (spec.kept) {
      OperationCosts forward = costs(), backward = costs();
      forward.elements(Pass::copy, 2 * tokens_ * width);
      if (unit.trained > 0) backward.pass(Pass::copy, tokens_ * width * (compute_bytes_ + 8));
      unit.forward += forward.sum();
      unit.backward += backward.sum();
    } else {
      add_block(spec, unit, unit.head);
    }
    add_runtime(spec, unit);
    work.units.push_back(unit);
    ++block;
  }
  std::ranges::stable_partition(work.units, &UnitWork::kept);
  if (shape_.heads && !has_heads) {
    OperationCosts head = costs();
    add_head(head);
    work.loss = head.sum();
  }
  work.width = width;
  work.frozen = frozen_model();
  work.update = update(work.units);
  return work;
}

}  // namespace

StepWork step_work(const SpeedRequest& request, const DeviceModel& device, int group) {
  return StepWriter(request, device, group).write();
}

}  // namespace wmtp::run

#include "wmtp/run/plan/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "wmtp/model/weight_names.h"
#include "wmtp/run/plan/memory_moments.h"
#include "wmtp/run/plan/unit_memory.h"
#include "wmtp/tensor/dtype.h"

namespace wmtp::run {
namespace {

constexpr double kSlack = 1.10;
// What libraries take at the first step and keep (benchmarks/plan.md). On a CPU the pages of their
// code that a step is the first to use, and the buffers into which GEMMs pack their operands; on a
// GPU the workspace of cuBLAS, which comes out of the allocator too.
constexpr std::int64_t kCpuLibraryBytes = std::int64_t{16} << 20;
constexpr std::int64_t kMostPackedBytes = std::int64_t{32} << 20;
constexpr std::int64_t kGpuLibraryBytes = std::int64_t{32} << 20;
// Gloo gathers into a copy. A group has two threads, each with a heap of its own that keeps what it
// had: room for the unit it gathers and for the one before.
constexpr std::int64_t kGlooCopies = 4;

std::string masters_row(const MemoryRequest& request) {
  const bool in_planes = request.parallel.splits(/*full_precision=*/false) &&
                         request.float8 != kernels::Float8Recipe::tensorwise;
  const std::string dtype(wmtp::name_of(request.parallel.master_dtype));
  const std::string master = in_planes ? dtype + ", two planes" : dtype;
  switch (request.recipe) {
    case optim::Recipe::int8:
      return fmt::format("master weights ({}) and two moments (8 bits)", master);
    case optim::Recipe::bf16_moments:
      return fmt::format("master weights ({}) and two moments (bf16)", master);
    case optim::Recipe::fp32:
      if (in_planes) return fmt::format("master weights ({}) and two moments (fp32)", master);
      break;
    case optim::Recipe::bf16_sr:
      break;
  }
  return fmt::format("master weights and two moments ({})", dtype);
}

// What stays for the whole run, row by row.
class Standing {
 public:
  Standing(const MemoryRequest& request, MemoryPlan& plan) : request_(request), plan_(plan) {}

  void add_state(const UnitMemory& units) {
    const auto add = [&](std::string what, std::int64_t bytes) {
      add_row({std::move(what), bytes, request_.parallel.offloads()});
      plan_.state_bytes += bytes;
    };
    add(masters_row(request_), units.masters);
    const std::int64_t grads = std::reduce(units.grads.begin(), units.grads.end());
    if (request_.parallel.frees_grads)
      plan_.state_bytes += grads;  // each moment has its own
    else
      add(kGradientsRow, grads);
    add("weights to compute with", units.copies);
    add(request_.quantize ? "frozen weights (matrices in NF4)" : "frozen weights", units.frozen);
  }

  void add_buffers(const UnitMemory& units) {
    const auto& options = request_.parallel;
    const std::int64_t slots =
        1 + std::max({1, options.prefetch_forward, options.prefetch_backward});
    const auto add = [&](std::string what, std::int64_t bytes) {
      add_row({std::move(what), bytes});
      plan_.buffer_bytes += bytes;
    };
    add(units.gather_slot > 0 ? fmt::format("gather slots ({} units) and root", slots)
                              : "gathered weights",
        slots * units.gather_slot + units.kept_gathers);
    add("reduce slots (2 units) and root", 2 * units.reduce_slot + units.kept_reductions);
    add("shards on their way to the other groups (2 units)", 2 * units.crossing);
    add_row({"a matrix in NF4 on its way to a slot", units.uploaded_nf4});
    if (!request_.on_gpu())
      add_row({"copies of gathers under way (Gloo)", kGlooCopies * units.gathered_unit});
  }

  // Weights and slots of the frozen model; its slots are its own.
  void add_other() {
    const FrozenRequest& other = *request_.other;
    parallel::ParallelOptions options;
    options.strategy = other.shard ? parallel::Strategy::full_shard : parallel::Strategy::no_shard;
    if (other.shard && other.shard_group_size > 0) {
      options.strategy = parallel::Strategy::hybrid_shard;
      options.shard_group_size = other.shard_group_size;
    }
    options.param_dtype = other.dtype;
    options.frozen_dtype = other.stored_dtype;
    options.device = request_.parallel.device;
    const UnitMemory units = unit_memory(other.units, options, optim::Recipe::fp32, request_.world);
    plan_.other_bytes = units.frozen + 2 * units.gather_slot + units.kept_gathers;
    add_row(
        {other.shard ? "frozen model, sharded, and its gather slots" : "frozen model, replicated",
         plan_.other_bytes});
  }

  // Tokens, angles of RoPE, the rows and targets of each head, documents; some of it on the host
  // too, which on a CPU is the same memory.
  void add_batches() {
    add_row({request_.micro_batches == 1 ? "micro-batch"
                                         : fmt::format("{} micro-batches", request_.micro_batches),
             batch_bytes()});
  }

  // They share what comes and goes in a step, and the workspace of the stream they are recorded on.
  void add_graphs(const std::vector<MemoryPlan::Moment>& moments) {
    if (request_.num_graphs == 0) return;
    std::int64_t most = 0;
    for (const MemoryPlan::Moment& moment : moments) most = std::max(most, moment.bytes());
    add_row({"memory of the graphs, a second set of activations", most + kGpuLibraryBytes});
    add_row({fmt::format("micro-batches of {} graphs", request_.num_graphs),
             request_.num_graphs * batch_bytes()});
  }

  void add_libraries() {
    const model::ModelConfig& m = request_.model;
    const std::int64_t widest = std::max(request_.heads ? m.vocab_size : 0, 2 * m.ffn_dim);
    const std::int64_t operands = 4 * widest * (m.dim + request_.tokens);
    add_row({"buffers of libraries",
             request_.on_gpu() ? kGpuLibraryBytes
                               : kCpuLibraryBytes + std::min(kMostPackedBytes, operands)});
  }

  const std::vector<MemoryPlan::Row>& rows() const { return rows_; }

 private:
  // Of a step.
  std::int64_t batch_bytes() const {
    const std::int64_t per_token = 4 * request_.model.head_dim + 8 * request_.model.n_future + 22;
    return request_.micro_batches * request_.tokens * per_token;
  }
  void add_row(MemoryPlan::Row row) {
    if (row.bytes > 0) rows_.push_back(std::move(row));
  }

  const MemoryRequest& request_;
  MemoryPlan& plan_;
  std::vector<MemoryPlan::Row> rows_;
};

std::int64_t sum_of(const std::vector<MemoryPlan::Row>& rows) {
  std::int64_t sum = 0;
  for (const MemoryPlan::Row& row : rows)
    if (!row.on_host) sum += row.bytes;
  return sum;
}

}  // namespace

std::int64_t MemoryPlan::Moment::bytes() const {
  return sum_of(rows);
}

std::int64_t MemoryPlan::total_bytes() const {
  return sum_of(rows);
}

std::int64_t MemoryPlan::needed_bytes() const {
  return static_cast<std::int64_t>(static_cast<double>(total_bytes()) * kSlack);
}

std::string MemoryPlan::table() const {
  std::string text;
  auto line = [&text](std::string_view what, std::int64_t bytes) {
    text += fmt::format("  {:<56}{:>10.2f} GiB\n", what, static_cast<double>(bytes) / (1 << 30));
  };
  for (const Row& row : rows)
    line(row.on_host ? row.what + ", in host memory" : row.what, row.bytes);
  line(fmt::format("together at the peak: {}", peak), total_bytes());
  line("with 10 % for the allocator", needed_bytes());
  return text;
}

std::vector<layout::UnitSpec> planned_units(const MemoryRequest& request) {
  auto units = request.lora ? model::lora_units(request.model, *request.lora)
                            : model::model_units(request.model);
  if (request.frozen)
    for (layout::UnitSpec& unit : units)
      for (layout::ParamSpec& param : unit.params) param.trained = false;
  if (request.quantize) model::quantize_projections(units);
  if (request.float8 == kernels::Float8Recipe::tensorwise) model::mark_float8_matrices(units);
  if (request.value_head)
    units.push_back(model::value_head_unit(*request.value_head, request.model.dim));
  return units;
}

MemoryPlan plan_memory(const MemoryRequest& request) {
  MemoryPlan plan;
  const UnitMemory units =
      unit_memory(planned_units(request), request.parallel, request.recipe, request.world);
  Standing standing(request, plan);
  standing.add_state(units);
  standing.add_buffers(units);
  if (request.other) standing.add_other();
  standing.add_batches();
  standing.add_libraries();
  plan.moments = step_moments(request, units);
  standing.add_graphs(plan.moments);
  for (MemoryPlan::Moment& moment : plan.moments)
    moment.rows.insert(moment.rows.begin(), standing.rows().begin(), standing.rows().end());
  const auto most = std::ranges::max_element(plan.moments, {}, &MemoryPlan::Moment::bytes);
  plan.peak = most->name;
  plan.rows = most->rows;
  return plan;
}

}  // namespace wmtp::run

// Attention over documents by cuDNN's frontend: ATen's call of cuDNN with documents of different
// lengths makes its plan anew each time, which takes longer than the attention. Here plans are kept
// for the process, one for each shape and GPU, and only a first micro-batch of its bucket waits.
#include "wmtp/kernels/cuda/cudnn_attention.h"

#include <ATen/cudnn/Handle.h>
#include <cuda_runtime_api.h>

#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>

#include "wmtp/kernels/cuda/attention_graph.h"

namespace wmtp::kernels {
namespace {

namespace fe = cudnn_frontend;

static_assert(kNotSupported == cudaErrorNotSupported);

// A step that failed, carried to the launcher's end by an exception.
struct Failed {
  cudaError_t code;
  std::string why;
};

struct Plan {
  std::shared_ptr<fe::graph::Graph> graph;
  std::int64_t workspace_bytes = 0;
  std::optional<Failed> refused = {};  // what cuDNN has no plan for is not asked for again
};

void check(fe::error_t error) {
  switch (error.get_code()) {
    case fe::error_code_t::OK:
      return;
    case fe::error_code_t::GRAPH_NOT_SUPPORTED:
    case fe::error_code_t::HEURISTIC_QUERY_FAILED:
    case fe::error_code_t::GRAPH_EXECUTION_PLAN_CREATION_FAILED:
      throw Failed{cudaErrorNotSupported, error.get_message()};
    default:
      throw Failed{cudaErrorUnknown, error.get_message()};
  }
}

auto key_of(const PackedAttentionShape& s) {
  int device = 0;
  if (const cudaError_t code = cudaGetDevice(&device)) throw Failed{code, "no current device"};
  return std::make_tuple(device, s.element, s.backward, s.deterministic, s.documents, s.length,
                         s.tokens, s.num_q, s.num_kv, s.head_dim, s.q_stride, s.k_stride,
                         s.v_stride, s.scale);
}

Plan make_plan(const PackedAttentionShape& shape) {
  try {
    Plan plan{attention_graph(shape)};
    check(plan.graph->build(at::native::getCudnnHandle(), {fe::HeurMode_t::A},
                            fe::BuildPlanPolicy_t::HEURISTICS_CHOICE));
    check(plan.graph->get_workspace_size(plan.workspace_bytes));
    return plan;
  } catch (const Failed& failed) {
    if (failed.code != cudaErrorNotSupported) throw;
    return {.graph = nullptr, .refused = failed};
  }
}

// The plan stays where it is: no shape's is ever taken away.
const Plan& plan_of(const PackedAttentionShape& shape) {
  struct Plans {
    std::mutex mutex;
    std::map<decltype(key_of(shape)), Plan> by_key;
  };
  // Never destroyed: at the end of the process cuDNN may be gone before the last plan.
  static Plans* const plans = new Plans;
  const auto key = key_of(shape);
  const std::lock_guard lock(plans->mutex);
  auto found = plans->by_key.find(key);
  if (found == plans->by_key.end()) found = plans->by_key.emplace(key, make_plan(shape)).first;
  if (found->second.refused) throw *found->second.refused;
  return found->second;
}

void check(cudnnStatus_t status) {
  if (status != CUDNN_STATUS_SUCCESS) throw Failed{cudaErrorUnknown, cudnnGetErrorString(status)};
}

// Runs `body`, and says as launchers do what it threw.
template <class Body>
int as_launcher(std::string* why, const Body& body) {
  try {
    body();
    return cudaSuccess;
  } catch (const Failed& failed) {
    *why = failed.why;
    return failed.code;
  } catch (const std::exception& error) {
    *why = error.what();
    return cudaErrorUnknown;
  }
}

}  // namespace

int plan_packed_attention(const PackedAttentionShape& shape, std::int64_t* workspace_bytes,
                          std::string* why) {
  return as_launcher(why, [&] { *workspace_bytes = plan_of(shape).workspace_bytes; });
}

int launch_packed_attention(const CudaPackedAttention& args, void* workspace, void* stream,
                            std::string* why) {
  return as_launcher(why, [&] {
    const Plan& plan = plan_of(args.shape);
    const cudnnHandle_t handle = at::native::getCudnnHandle();
    check(cudnnSetStream(handle, static_cast<cudaStream_t>(stream)));
    auto pointers = graph_pointers(args);
    check(plan.graph->execute(handle, pointers, workspace));
  });
}

}  // namespace wmtp::kernels

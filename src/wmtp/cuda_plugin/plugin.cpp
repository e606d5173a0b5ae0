// The one symbol of libwmtp_cuda.so.
#include "wmtp/comm/cuda/nccl_communicator.h"
#include "wmtp/comm/groups.h"
#include "wmtp/cuda_plugin/services.h"
#include "wmtp/kernels/cuda/cudnn_attention.h"
#include "wmtp/tensor/cuda_plugin.h"

namespace wmtp::kernels {

// Weak: without cuDNN's frontend there are none, and the slots stay empty.
[[gnu::weak]] int plan_packed_attention(const PackedAttentionShape&, std::int64_t*, std::string*);
[[gnu::weak]] int launch_packed_attention(const CudaPackedAttention&, void*, void*, std::string*);

int list_product_algorithms(const CudaProduct&, std::vector<ProductAlgorithm>*);
int launch_product(const CudaProduct&, const ProductAlgorithm&, void*);
std::string product_library();

}  // namespace wmtp::kernels

namespace wmtp::cuda_plugin {
namespace {

const kernels::CudaKernels& all_kernels() {
  static const kernels::CudaKernels table = [] {
    kernels::CudaKernels all = kernels::cuda_kernels();
    all.packed_attention_plan = &kernels::plan_packed_attention;
    all.packed_attention = &kernels::launch_packed_attention;
    all.product_algorithms = &kernels::list_product_algorithms;
    all.product = &kernels::launch_product;
    all.product_library = &kernels::product_library;
    return all;
  }();
  return table;
}

}  // namespace
}  // namespace wmtp::cuda_plugin

extern "C" bool wmtp_cuda_plugin(unsigned abi, wmtp::CudaTables* tables) {
  if (abi != wmtp::kCudaPluginAbi) return false;
  tables->services = wmtp::cuda_plugin::services();
  tables->kernels = &wmtp::cuda_plugin::all_kernels();
  tables->nccl_factory = &wmtp::comm::make_nccl_communicator;
  return true;
}

#include "emulated_gpu/device/on_twins.h"

#include "emulated_gpu/device/memory.h"
#include "emulated_gpu/device/streams.h"

namespace wmtp::emulated {

void on_twins(const std::vector<Tensor>& on_gpu, const TwinBody& body) {
  const bool noted = recorder() != nullptr;
  std::vector<Tensor> twins;
  for (const Tensor& tensor : on_gpu)
    twins.push_back(noted ? recorded_twin(tensor) : host_twin(tensor));
  if (noted) return give(current_stream(), [body, twins] { body(twins); });
  do_all(current_stream());
  body(twins);
}

}  // namespace wmtp::emulated

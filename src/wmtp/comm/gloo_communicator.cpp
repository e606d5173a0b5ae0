#include <ATen/ops/empty_like.h>
#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "wmtp/comm/c10d_communicator.h"
#include "wmtp/comm/groups.h"
#include "wmtp/comm/store_body.h"
#include "wmtp/core/error.h"
#include "wmtp/core/resource_limits.h"

namespace wmtp::comm {
namespace {

class GlooCommunicator : public C10dCommunicator {
 public:
  GlooCommunicator(const GroupSpec& spec, c10::intrusive_ptr<c10d::Backend> backend)
      : C10dCommunicator({spec.name, spec.rank, spec.world, spec.device}, std::move(backend),
                         WaitStyle::host) {}
  std::string_view backend() const override { return "gloo"; }

 protected:
  // Gloo has no reduce-scatter in c10d: an all-reduce, and our slice of it. In place nothing is
  // copied.
  Work do_reduce_scatter(const Tensor& out, const Tensor& in) override {
    const Tensor flat = in.view({-1});
    const bool in_place =
        out.data_ptr() == flat.narrow(0, rank() * out.numel(), out.numel()).data_ptr();
    Tensor sum = in_place ? flat : flat.clone();
    return launch(
        "reduce_scatter",
        [&] {
          std::vector<Tensor> tensors{sum};
          return pg().allreduce(tensors);
        },
        [this, out, sum, in_place] {
          if (!in_place) out.view({-1}).copy_(sum.narrow(0, rank() * out.numel(), out.numel()));
        });
  }

  // Gloo sends from host memory only.
  Work do_send(const Tensor& tensor, int to) override {
    return C10dCommunicator::do_send(tensor.cpu(), to);
  }
  Work do_recv(const Tensor& tensor, int from) override {
    if (tensor.is_cpu()) return C10dCommunicator::do_recv(tensor, from);
    const Tensor host = at::empty_like(tensor, tensor.options().device(c10::kCPU));
    return launch_between_two(
        "recv",
        [&] {
          std::vector<Tensor> tensors{host};
          return pg().recv(tensors, from, /*tag=*/0);
        },
        [tensor, host] { tensor.copy_(host); });
  }
};

std::shared_ptr<gloo::transport::Device> make_device(const GroupSpec& spec) {
  if (!spec.gloo_interface.empty())
    return c10d::ProcessGroupGloo::createDeviceForInterface(spec.gloo_interface);
  return c10d::ProcessGroupGloo::createDeviceForHostname(
      spec.gloo_address.empty() ? "127.0.0.1" : spec.gloo_address);
}

}  // namespace

std::unique_ptr<Communicator> make_gloo(const GroupSpec& spec) {
  try {
    auto options = c10d::ProcessGroupGloo::Options::create(spec.timeout);
    options->devices.push_back(make_device(spec));
    const Store own = spec.store.prefixed("group/" + spec.name).clone();
    return std::make_unique<GlooCommunicator>(
        spec, c10::make_intrusive<c10d::ProcessGroupGloo>(own.body().store, spec.rank, spec.world,
                                                          options));
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    if (auto limit = as_limit_error(error)) throw *std::move(limit);
    throw Error(ErrorKind::comm, "comm",
                fmt::format("cannot connect group '{}' of {} ranks over gloo ({}): {}", spec.name,
                            spec.world,
                            spec.gloo_interface.empty() ? spec.gloo_address : spec.gloo_interface,
                            first_line(error)),
                "all ranks must reach each other; set distributed.interface to the shared network");
  }
}

}  // namespace wmtp::comm

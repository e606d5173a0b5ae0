// Part of the GPU plugin: needs libtorch_cuda and NCCL's header.
#include "wmtp/comm/cuda/nccl_communicator.h"
#include "wmtp/comm/groups.h"

#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "wmtp/comm/c10d_communicator.h"
#include "wmtp/comm/launch/launch_env.h"
#include "wmtp/comm/store_body.h"
#include "wmtp/core/error.h"

namespace wmtp::comm {
namespace {

class NcclCommunicator : public C10dCommunicator {
 public:
  NcclCommunicator(const GroupSpec& spec, c10::intrusive_ptr<c10d::Backend> backend)
      : C10dCommunicator({spec.name, spec.rank, spec.world, spec.device}, std::move(backend),
                         WaitStyle::stream) {}
  std::string_view backend() const override { return "nccl"; }

 protected:
  // NCCL's own barrier returns when the stream waits; ours promises that the host has waited.
  void do_barrier() override {
    launch("barrier", [&] {
      c10d::BarrierOptions options;
      options.device = device();
      return pg().barrier(options);
    }).wait();
    c10::cuda::getCurrentCUDAStream(device().index()).synchronize();
  }
};

}  // namespace

std::unique_ptr<Communicator> make_nccl_communicator(const GroupSpec& spec) {
  prepare_nccl_environment();
  try {
    auto options = c10d::ProcessGroupNCCL::Options::create(/*is_high_priority_stream=*/true);
    options->timeout = spec.timeout;
    options->group_name = spec.name;
    const Store own = spec.store.prefixed("group/" + spec.name).clone();
    auto group = c10::make_intrusive<c10d::ProcessGroupNCCL>(own.body().store, spec.rank,
                                                             spec.world, options);
    group->eagerConnectSingleDevice(spec.device);
    return std::make_unique<NcclCommunicator>(spec, group);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(ErrorKind::comm, "comm",
                fmt::format("cannot connect group '{}' of {} ranks over NCCL on {}: {}", spec.name,
                            spec.world, spec.device.str(), first_line(error)),
                "NCCL_DEBUG=INFO shows the interface it chose; two ranks cannot share one GPU");
  }
}

}  // namespace wmtp::comm

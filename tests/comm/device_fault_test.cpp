// A collective is often the first call that sees what an earlier kernel did.
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "wmtp/comm/c10d_communicator.h"

namespace wmtp::comm {
namespace {

class FaultyBackend : public c10d::Backend {
 public:
  explicit FaultyBackend(int code) : Backend(0, 2), code_(code) {}
  const std::string getBackendName() const override { return "faulty"; }
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>&,
                                           const c10d::AllreduceOptions&) override {
    if (code_ == 0) throw c10::DistBackendError({"allreduce", "here", 1}, "NCCL error: remote");
    throw c10::AcceleratorError({"allreduce", "here", 1}, code_, "CUDA error: of the device\nmore");
  }
  void shutdown() override {}

 private:
  int code_;
};

class FaultyCommunicator : public C10dCommunicator {
 public:
  explicit FaultyCommunicator(int code)
      : C10dCommunicator({"test", 0, 2, c10::Device(c10::kCPU)},
                         c10::make_intrusive<FaultyBackend>(code), WaitStyle::stream) {}
  std::string_view backend() const override { return "faulty"; }
};

TEST(DeviceFault, InACollectiveIsJudgedByItsCode) {
  const Tensor sum = at::zeros({4});
  EXPECT_WMTP_ERROR(FaultyCommunicator(700).all_reduce(sum), ErrorKind::internal,
                    "failed: CUDA error: of the device");
  EXPECT_WMTP_ERROR(FaultyCommunicator(214).all_reduce(sum), ErrorKind::device, "all_reduce");
  EXPECT_WMTP_ERROR(FaultyCommunicator(0).all_reduce(sum), ErrorKind::comm, "remote");
}

}  // namespace
}  // namespace wmtp::comm

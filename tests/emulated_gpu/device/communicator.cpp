#include "emulated_gpu/device/communicator.h"

#include <cstring>

#include "emulated_gpu/device/memory.h"
#include "emulated_gpu/device/recording.h"
#include "emulated_gpu/device/streams.h"

namespace wmtp::emulated {
namespace {

// NCCL does not tell when a collective ended.
class StreamWork final : public comm::Work::Body {
 public:
  explicit StreamWork(comm::Work inner) : inner_(std::move(inner)) {}
  void wait() override { inner_.wait(); }
  bool done() override { return inner_.done(); }

 private:
  comm::Work inner_;
};

comm::Work on_stream(comm::Work inner) {
  return comm::Work(std::make_unique<StreamWork>(std::move(inner)));
}

// A collective starts behind what the current stream has been given. wmtp records none.
void start() {
  refuse_while_recording("a collective");
  do_all(current_stream());
}

Tensor given(const Tensor& tensor) {
  start();
  return host_twin(tensor);
}

class EmulatedNccl final : public comm::Communicator {
 public:
  EmulatedNccl(const comm::GroupSpec& spec, std::unique_ptr<comm::Communicator> gloo)
      : Communicator({spec.name, spec.rank, spec.world, spec.device}), gloo_(std::move(gloo)) {}

  std::string_view backend() const override { return "nccl"; }
  void abort() noexcept override { gloo_->abort(); }

 protected:
  comm::Work do_all_gather(const Tensor& out, const Tensor& in) override {
    return on_stream(gloo_->all_gather(host_twin(out), given(in)));
  }
  comm::Work do_reduce_scatter(const Tensor& out, const Tensor& in) override {
    return on_stream(gloo_->reduce_scatter(host_twin(out), given(in)));
  }
  comm::Work do_all_reduce(const Tensor& in_out) override {
    return on_stream(gloo_->all_reduce(given(in_out)));
  }
  comm::Work do_broadcast(const Tensor& in_out, int root) override {
    return on_stream(gloo_->broadcast(given(in_out), root));
  }
  comm::Work do_gather(const Tensor& out, const Tensor& in, int root) override {
    start();
    const std::string_view mine(static_cast<const char*>(in.const_data_ptr()), in.nbytes());
    auto* to = rank() == root ? static_cast<char*>(out.mutable_data_ptr()) : nullptr;
    for (const std::string& bytes : gloo_->gather_bytes(mine, root)) {
      std::memcpy(to, bytes.data(), bytes.size());
      to += bytes.size();
    }
    return {};
  }
  void do_barrier() override {
    refuse_while_recording("a collective");
    gloo_->barrier();
  }
  comm::Work do_send(const Tensor& tensor, int to) override {
    return on_stream(gloo_->send(given(tensor), to));
  }
  comm::Work do_recv(const Tensor& tensor, int from) override {
    refuse_while_recording("a collective");
    return on_stream(gloo_->recv(host_twin(tensor), from));
  }

 private:
  std::unique_ptr<comm::Communicator> gloo_;
};

}  // namespace

std::unique_ptr<comm::Communicator> make_communicator(const comm::GroupSpec& spec) {
  comm::GroupSpec on_host = spec;
  on_host.device = c10::Device(c10::DeviceType::CPU);
  return std::make_unique<EmulatedNccl>(spec, comm::make_gloo(on_host));
}

}  // namespace wmtp::emulated

// World 1: every collective is a copy, or nothing where input and output are the same memory.
#include "wmtp/comm/communicator.h"
#include "wmtp/comm/groups.h"

namespace wmtp::comm {
namespace {

class SingleCommunicator : public Communicator {
 public:
  SingleCommunicator(std::string name, c10::Device device)
      : Communicator({std::move(name), 0, 1, device}) {}
  std::string_view backend() const override { return "single"; }
  void abort() noexcept override {}

 protected:
  Work do_all_gather(const Tensor& out, const Tensor& in) override { return copy(out, in); }
  Work do_reduce_scatter(const Tensor& out, const Tensor& in) override { return copy(out, in); }
  Work do_all_reduce(const Tensor&) override { return {}; }
  Work do_broadcast(const Tensor&, int) override { return {}; }
  Work do_gather(const Tensor& out, const Tensor& in, int) override { return copy(out, in); }
  void do_barrier() override {}

 private:
  static Work copy(const Tensor& out, const Tensor& in) {
    if (out.const_data_ptr() != in.const_data_ptr()) out.view({-1}).copy_(in.view({-1}));
    return {};
  }
};

}  // namespace

std::unique_ptr<Communicator> make_single(std::string name, c10::Device device) {
  return std::make_unique<SingleCommunicator>(std::move(name), device);
}

}  // namespace wmtp::comm

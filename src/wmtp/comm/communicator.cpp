#include "wmtp/comm/communicator.h"
#include "wmtp/comm/groups.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include "wmtp/comm/agreement.h"
#include "wmtp/core/error.h"
#include "wmtp/core/failpoint.h"
#include "wmtp/tensor/dtype.h"
#include "wmtp/tensor/profile_scope.h"
#include "wmtp/tensor/recorded_pieces.h"

namespace wmtp::comm {
namespace {

void require(bool holds, std::string_view kind, const std::string& fact) {
  if (!holds)
    throw Error(ErrorKind::internal, "comm", fmt::format("{}: {}", kind, fact),
                "this is a bug in wmtp; please report it");
}

void require_multiple(std::string_view kind, const Tensor& whole, const Tensor& part, int world) {
  require(whole.numel() == world * part.numel() && whole.scalar_type() == part.scalar_type(), kind,
          fmt::format("{} {} elements are not {} ranks x {} {} elements", whole.numel(),
                      wmtp::name_of(whole.scalar_type()), world, part.numel(),
                      wmtp::name_of(part.scalar_type())));
}

// A damaged passage leaves this rank's collective out: what its peers then do is the test.
bool left_out() {
  const failpoint::Action action = failpoint::pass("comm.collective.before");
  return action == failpoint::Action::skip || action == failpoint::Action::damage;
}

// Tells log and meter when its caller has waited, the first time.
class ObservedWork : public Work::Body {
 public:
  struct Observers {
    std::shared_ptr<CollectiveLog> log;
    std::shared_ptr<CollectiveMeter> meter;  // null: not counted
    std::uint64_t number = 0;                // in the log
    std::string_view kind = {};              // for profiles: "all_gather"
    std::string what = {};                   // and "all_gather model.layers.3"
    CollectiveTimes times = {};
  };
  ObservedWork(Work inner, Observers observers)
      : inner_(std::move(inner)), observers_(std::move(observers)) {}

  void wait() override {
    if (waited_) return inner_.wait();
    const ProfileScope scope("wait ", observers_.what);
    const ProfiledOperator operation("wait ", observers_.kind);
    if (observers_.meter) observers_.times.wait_begun = observers_.meter->now();
    inner_.wait();
    waited_ = true;
    observers_.log->finish(observers_.number);
    if (!observers_.meter) return;
    observers_.times.wait_ended = observers_.meter->now();
    if (const auto ended = inner_.ended()) observers_.times.ended = Moment(*ended);
    observers_.meter->add(std::move(observers_.times));
  }
  bool done() override { return inner_.done(); }
  std::optional<Clock::time_point> ended() const override { return inner_.ended(); }

 private:
  Work inner_;
  Observers observers_;
  bool waited_ = false;
};

// The collective that each replay of recorded work starts, and waits for where it was first waited
// for: every wait ends a piece.
class RecordedCollective final : public Work::Body {
 public:
  explicit RecordedCollective(std::shared_ptr<Work> started) : started_(std::move(started)) {}
  void wait() override {
    if (std::exchange(waited_, true)) return;
    between_pieces([started = started_] { started->wait(); });
  }
  bool done() override { return started_->done(); }

 private:
  std::shared_ptr<Work> started_;
  bool waited_ = false;
};

}  // namespace

void Work::wait() {
  if (body_) body_->wait();
}

Communicator::Communicator(Identity identity)
    : name_(std::move(identity.name)),
      rank_(identity.rank),
      world_(identity.world),
      device_(identity.device),
      log_(std::make_shared<CollectiveLog>()),
      meter_(std::make_shared<CollectiveMeter>(device_)) {
  WMTP_CHECK(world_ >= 1 && rank_ >= 0 && rank_ < world_,
             fmt::format("rank {} of {} in group {}", rank_, world_, name_));
}

void Communicator::check(const Tensor& tensor, std::string_view kind) const {
  require(tensor.defined() && tensor.is_contiguous(), kind, "the tensor is not contiguous");
  require(
      tensor.device().type() == device_.type(), kind,
      fmt::format("tensor on {}, group '{}' on {}", tensor.device().str(), name_, device_.str()));
}

// A rank alone has nobody to wait for: what its collectives do is work of the device.
Work Communicator::started(CollectiveKind kind, const Tensor& tensor, std::string_view label,
                           std::function<Work()> start, std::optional<int> root) {
  if (!is_recording() || !is_counted()) return started_now(kind, tensor, label, start, root);
  auto work = std::make_shared<Work>();
  between_pieces([=, this, label = std::string(label), start = std::move(start)] {
    *work = started_now(kind, tensor, label, start, root);
  });
  return Work(std::make_unique<RecordedCollective>(std::move(work)));
}

Work Communicator::started_now(CollectiveKind kind, const Tensor& tensor, std::string_view label,
                               const std::function<Work()>& start, std::optional<int> root) {
  const auto called = Clock::now();
  if (left_out()) return {};
  const bool is_gather = kind == CollectiveKind::other;  // of one rank's part
  const std::string_view kind_name = is_gather ? "gather" : name_of(kind);
  std::string what(kind_name);
  if (root) what += fmt::format(" {} {}", is_gather ? "to" : "from", *root);
  const auto number = log_->start(what, tensor.numel(), wmtp::name_of(tensor.scalar_type()), label);
  if (tensor.numel() == 0) {
    log_->finish(number);
    return {};
  }
  what.append(" ").append(label);
  const ProfileScope scope(what);
  const ProfiledOperator operation(kind_name);
  ObservedWork::Observers observers{log_, {}, number, kind_name, std::move(what)};
  if (!is_counted()) return Work(std::make_unique<ObservedWork>(start(), std::move(observers)));
  const Moment begun = meter_->now();
  Work work = start();
  meter_->count(kind, static_cast<std::int64_t>(tensor.nbytes()) * (is_gather ? world_ : 1),
                seconds_since(called));
  observers.meter = meter_;
  observers.times = {kind, begun, {}, {}, {}};
  return Work(std::make_unique<ObservedWork>(std::move(work), std::move(observers)));
}

Work Communicator::all_gather(const Tensor& out, const Tensor& in, std::string_view label) {
  check(out, "all_gather");
  check(in, "all_gather");
  require_multiple("all_gather", out, in, world_);
  return started(CollectiveKind::all_gather, out, label,
                 [=, this] { return do_all_gather(out, in); });
}

Work Communicator::reduce_scatter(const Tensor& out, const Tensor& in, std::string_view label) {
  check(out, "reduce_scatter");
  check(in, "reduce_scatter");
  require_multiple("reduce_scatter", in, out, world_);
  return started(CollectiveKind::reduce_scatter, in, label,
                 [=, this] { return do_reduce_scatter(out, in); });
}

Work Communicator::all_reduce(const Tensor& in_out, std::string_view label) {
  check(in_out, "all_reduce");
  return started(CollectiveKind::all_reduce, in_out, label,
                 [=, this] { return do_all_reduce(in_out); });
}

Work Communicator::broadcast(const Tensor& in_out, int root, std::string_view label) {
  check(in_out, "broadcast");
  require(root >= 0 && root < world_, "broadcast", fmt::format("root {} of {}", root, world_));
  return started(
      CollectiveKind::broadcast, in_out, label, [=, this] { return do_broadcast(in_out, root); },
      root);
}

Work Communicator::started_between_two(std::string_view kind, const Tensor& tensor, int other,
                                       std::string_view label, const std::function<Work()>& start) {
  check(tensor, kind);
  require(other >= 0 && other < world_ && other != rank_, kind,
          fmt::format("rank {} and rank {} of {}", rank_, other, world_));
  const auto number = log_->start(fmt::format("{} {}", kind, other), tensor.numel(),
                                  wmtp::name_of(tensor.scalar_type()), label);
  return Work(std::make_unique<ObservedWork>(
      start(), ObservedWork::Observers{log_, {}, number, kind, fmt::format("{} {}", kind, label)}));
}

Work Communicator::send(const Tensor& tensor, int to, std::string_view label) {
  return started_between_two("send to", tensor, to, label, [&] { return do_send(tensor, to); });
}

Work Communicator::recv(const Tensor& tensor, int from, std::string_view label) {
  return started_between_two("recv from", tensor, from, label,
                             [&] { return do_recv(tensor, from); });
}

Work Communicator::do_send(const Tensor&, int) {
  require(false, "send", "this kind of group cannot send to one rank");
  return {};
}

Work Communicator::do_recv(const Tensor&, int) {
  require(false, "recv", "this kind of group cannot receive from one rank");
  return {};
}

void Communicator::barrier(std::string_view label) {
  if (left_out()) return;
  const auto number = log_->start("barrier", 0, "-", label);
  const ProfileScope scope("barrier ", label);
  const ProfiledOperator operation("barrier");
  const Moment begun = is_counted() ? meter_->now() : Moment();
  do_barrier();
  log_->finish(number);
  if (!is_counted()) return;
  meter_->count(CollectiveKind::other, 0);
  meter_->add({CollectiveKind::other, begun, begun, meter_->now(), {}});
}

std::vector<std::string> Communicator::gather_bytes(std::string_view mine, int root,
                                                    std::string_view label) {
  require(root == kAllRanks || (root >= 0 && root < world_), "gather_bytes",
          fmt::format("root {} of {}", root, world_));
  const auto on_device = c10::TensorOptions().device(device_);
  const Tensor sizes_W = at::empty({world_}, on_device.dtype(kInt64));
  all_gather(sizes_W,
             at::full({1}, static_cast<std::int64_t>(mine.size()), on_device.dtype(kInt64)), label)
      .wait();
  const Tensor sizes_host_W = sizes_W.cpu();
  const std::int64_t* sizes = sizes_host_W.const_data_ptr<std::int64_t>();
  const std::int64_t longest = *std::max_element(sizes, sizes + world_);

  const auto bytes = c10::TensorOptions().dtype(c10::kByte);
  Tensor padded = at::zeros({longest}, bytes);
  std::memcpy(padded.mutable_data_ptr(), mine.data(), mine.size());
  padded = padded.to(device_);
  const bool receives = root == kAllRanks || root == rank_;
  const Tensor all = at::empty({receives ? longest * world_ : 0}, bytes.device(device_));
  if (root == kAllRanks)
    all_gather(all, padded, label).wait();
  else
    started(
        CollectiveKind::other, padded, label, [=, this] { return do_gather(all, padded, root); },
        root)
        .wait();

  std::vector<std::string> result;
  if (!receives) return result;
  const Tensor all_host = all.cpu();
  const auto* text = static_cast<const char*>(all_host.const_data_ptr());
  for (int r = 0; r < world_; ++r) result.emplace_back(text + r * longest, sizes[r]);
  return result;
}

std::unique_ptr<Communicator> make_nccl(const GroupSpec& spec, NcclFactory factory) {
  if (!factory)
    throw Error(ErrorKind::config, "comm",
                "backend nccl: no GPU here, or wmtp was built without CUDA",
                "set distributed.backend=gloo for CPU runs");
  return factory(spec);
}

void verify_group(Communicator& group) {
  const Tensor sum =
      at::full({1}, group.rank(), c10::TensorOptions().dtype(kInt64).device(group.device()));
  group.all_reduce(sum, "verify").wait();
  const std::int64_t expected = std::int64_t{group.world()} * (group.world() - 1) / 2;
  const std::int64_t got = sum.item<std::int64_t>();
  if (got != expected)
    throw Error(ErrorKind::comm, "comm",
                fmt::format("group '{}' over {}: the sum of {} ranks came out as {}, not {}",
                            group.name(), group.backend(), group.world(), got, expected),
                "run wmtp doctor --collectives on these nodes");
}

void check_collective_order(const std::vector<Communicator*>& groups, const OrderCheck& check) {
  Facts facts;
  for (Communicator* group : groups) {
    const std::vector<std::string> recorded = group->log()->recorded();
    for (std::size_t i = 0; i < recorded.size(); ++i)
      facts.must_agree[fmt::format("collective {:05} of group {}", i + 1, group->name())] =
          recorded[i];
    facts.must_agree[fmt::format("collectives hash of group {}", group->name())] =
        fmt::format("{:016x}", group->log()->hash());
    group->log()->stop_recording();
  }
  agree(check.store, facts, {check.rank, check.world, check.timeout, 1, "collective_order"});
}

}  // namespace wmtp::comm

#include "wmtp/comm/session.h"
#include "wmtp/comm/groups.h"

#include <fmt/format.h>
#include <torch/headeronly/version.h>

#include "wmtp/comm/watch/watchdog_state.h"
#include "wmtp/core/log.h"
#include "wmtp/core/time.h"

namespace wmtp::comm {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kCausePatience{500};
constexpr milliseconds kShutdownLimit{30'000};

std::string chosen_backend(const SessionOptions& options, int world) {
  if (world == 1) return "single";
  if (options.backend != "auto") return options.backend;
  return options.device.is_cuda() ? "nccl" : "gloo";
}

}  // namespace

ProcessGroupSession::ProcessGroupSession(LaunchEnv launch, SessionOptions options)
    : launch_(std::move(launch)), options_(std::move(options)) {}

std::unique_ptr<ProcessGroupSession> ProcessGroupSession::start(LaunchEnv launch,
                                                                SessionOptions options) {
  std::unique_ptr<ProcessGroupSession> session(
      new ProcessGroupSession(std::move(launch), std::move(options)));
  if (session->launch_.rank == 0)
    for (const std::string& notice : session->launch_.notices) log::warn("launch", "{}", notice);
  session->backend_ = chosen_backend(session->options_, session->world());
  if (session->backend_ != "single" && session->backend_ != "gloo" && session->backend_ != "nccl")
    throw Error(ErrorKind::config, "comm",
                fmt::format("backend '{}' is unknown", session->backend_),
                "distributed.backend is auto, gloo or nccl");
  session->rendezvous_ = rendezvous(session->launch_, session->options_.rendezvous);
  session->watchdog_ = std::make_unique<Watchdog>(WatchdogOptions{
      session->rank(), session->world(), session->rendezvous_.store, session->options_.run_dir,
      session->options_.beat, session->options_.dead_after, session->options_.leave});
  return session;
}

ProcessGroupSession::~ProcessGroupSession() {
  if (!finished_) abort_groups();
}

std::vector<std::string> ProcessGroupSession::agree(Facts facts, const std::string& scope) {
  watchdog_->enter("agreement", options_.agreement_timeout + std::chrono::seconds(10));
  facts.must_agree["world"] = std::to_string(world());
  facts.must_agree["LibTorch"] = TORCH_VERSION;
  facts.must_agree["device"] = c10::DeviceTypeName(options_.device.type(), /*lower_case=*/true);
  facts.must_agree["backend"] = backend_;
  const AgreementOptions agreement{rank(), world(), options_.agreement_timeout, 20, scope};
  std::vector<std::string> warnings = comm::agree(store(), facts, agreement);
  if (rank() == 0)
    for (const std::string& line : warnings) log::warn("comm", "{}", line);
  watchdog_->enter("start", milliseconds(0));
  return warnings;
}

std::unique_ptr<Communicator> ProcessGroupSession::make_group(const std::string& name) {
  return make_group(name, {rank(), world(), store()});
}

std::unique_ptr<Communicator> ProcessGroupSession::make_group(const std::string& name,
                                                              const Membership& place) {
  const GroupSpec spec{name,
                       place.rank,
                       place.world,
                       options_.device,
                       place.store,
                       std::chrono::hours(1),
                       rendezvous_.local_address,
                       options_.rendezvous.interface.empty() ? launch_.gloo_interface
                                                             : options_.rendezvous.interface};
  std::unique_ptr<Communicator> group;
  if (backend_ == "single")
    group = make_single(name, options_.device);
  else
    group = backend_ == "gloo" ? make_gloo(spec) : make_nccl(spec, options_.nccl);
  watchdog_->observe(name, group->log());
  verify_group(*group);
  return group;
}

void ProcessGroupSession::connect() {
  watchdog_->enter("connect", options_.rendezvous.timeout);
  gather_ = make_group("gather");
  reduce_ = make_group("reduce");
  watchdog_->enter("start", milliseconds(0));
}

ShardGroups ProcessGroupSession::shard_groups(int size) {
  WMTP_CHECK(size > 0 && world() % size == 0, "groups of equal size");
  if (size == world()) return {&gather_group(), &reduce_group(), nullptr};
  if (size == 1) return {nullptr, nullptr, &reduce_group()};
  WMTP_CHECK(shard_group_size_ == 0 || shard_group_size_ == size, "one size of groups in a run");
  if (shard_group_size_ == 0) {
    const int group = rank() / size, position = rank() % size;
    const Membership inside{position, size, store().prefixed(fmt::format("shard group {}", group))};
    const Membership across{group, world() / size,
                            store().prefixed(fmt::format("position {}", position))};
    watchdog_->enter("connect", options_.rendezvous.timeout);
    shard_gather_ = make_group("shard gather", inside);
    shard_reduce_ = make_group("shard reduce", inside);
    replicate_ = make_group("replicate", across);
    watchdog_->enter("start", milliseconds(0));
    shard_group_size_ = size;
  }
  return {shard_gather_.get(), shard_reduce_.get(), replicate_.get()};
}

Communicator& ProcessGroupSession::gather_group() {
  WMTP_CHECK(gather_ != nullptr, "the groups are not connected");
  return *gather_;
}

Communicator& ProcessGroupSession::reduce_group() {
  WMTP_CHECK(reduce_ != nullptr, "the groups are not connected");
  return *reduce_;
}

void ProcessGroupSession::check_order() {
  check_collective_order(groups(), {store(), rank(), world(), options_.agreement_timeout});
}

std::vector<Communicator*> ProcessGroupSession::groups() const {
  std::vector<Communicator*> connected;
  for (const auto* group : {&gather_, &reduce_, &shard_gather_, &shard_reduce_, &replicate_})
    if (*group) connected.push_back(group->get());
  return connected;
}

void ProcessGroupSession::abort_groups() noexcept {
  for (Communicator* group : groups()) group->abort();
}

Failure ProcessGroupSession::broadcast_failure(const Error& error) {
  if (told_) return *told_;
  const Failure mine{rank(), static_cast<int>(exit_code(error.kind())), error.what()};
  std::optional<Failure> theirs;
  if (error.kind() == ErrorKind::comm) theirs = watchdog_->posted(kCausePatience);
  told_ = theirs ? *theirs : watchdog_->post(mine);
  watchdog_->enter("failure", kShutdownLimit);
  return *told_;
}

Failure ProcessGroupSession::agree_on_failure(const Error& error) {
  const Failure cause = broadcast_failure(error);
  abort_groups();
  let_others_read(cause, store(), world());
  if (rank() == 0 && cause.rank != rank())
    log::error("comm", "root cause on rank {}: {}", cause.rank, cause.message);
  return cause;
}

void ProcessGroupSession::finish() {
  if (finished_) return;
  watchdog_->enter("shutdown", kShutdownLimit);
  if (gather_) gather_->barrier("finish");
  for (auto* group : {&replicate_, &shard_reduce_, &shard_gather_, &gather_, &reduce_})
    group->reset();
  watchdog_->say_goodbye();
  finished_ = true;
  if (world() == 1) return watchdog_->enter("finished", milliseconds(0));
  // The store lives in rank 0 (or its folder): it goes last.
  const auto deadline = Clock::now() + kShutdownLimit;
  store().add("goodbye", 1);
  while (rank() == 0 && store().add("goodbye", 0) < world() && Clock::now() < deadline)
    std::this_thread::sleep_for(milliseconds(10));
  if (rank() == 0 && rendezvous_.own_folder) {
    std::error_code ignored;
    std::filesystem::remove_all(*rendezvous_.own_folder, ignored);
  }
  watchdog_->enter("finished", milliseconds(0));
}

}  // namespace wmtp::comm

#include "wmtp/core/resource_limits.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <fstream>
#include <iterator>
#include <mutex>
#include <new>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "wmtp/core/procfs.h"

namespace wmtp {
namespace {

using Texts = std::vector<std::string>;

void add_rlimit(Texts& texts, int resource, std::string_view name, bool in_mib = false) {
  rlimit limit{};
  ::getrlimit(static_cast<__rlimit_resource_t>(resource), &limit);
  if (limit.rlim_cur == RLIM_INFINITY) return;
  texts.push_back(in_mib ? fmt::format("{} = {} MiB", name, limit.rlim_cur >> 20)
                         : fmt::format("{} = {}", name, limit.rlim_cur));
}

// The smallest that this process's group and the groups around it set.
std::optional<std::int64_t> cgroup_limit(std::string_view controller, const std::string& file) {
  std::optional<std::int64_t> smallest;
  std::ifstream groups("/proc/self/cgroup");
  const std::string text{std::istreambuf_iterator<char>(groups), std::istreambuf_iterator<char>()};
  for (const CgroupFolder& folder : cgroup_folders(text, controller)) {
    const auto limit = procfs_number((folder.path + "/" + file).c_str());
    if (limit && (!smallest || *limit < *smallest)) smallest = limit;
  }
  return smallest;
}

Texts limit_texts(Resource resource) {
  Texts texts;
  if (resource == Resource::descriptors) add_rlimit(texts, RLIMIT_NOFILE, "RLIMIT_NOFILE");
  // A thread's stack is mapped, so that the end of the address space is an end of threads too.
  if (resource == Resource::memory || resource == Resource::threads)
    add_rlimit(texts, RLIMIT_AS, "RLIMIT_AS", /*in_mib=*/true);
  if (resource == Resource::memory) {  // a cgroup's limit kills, it does not refuse
    add_rlimit(texts, RLIMIT_DATA, "RLIMIT_DATA", /*in_mib=*/true);
    if (procfs_number("/proc/sys/vm/overcommit_memory") == 2)
      texts.emplace_back("vm.overcommit_memory = 2");
  }
  if (resource == Resource::threads) {
    add_rlimit(texts, RLIMIT_NPROC, "RLIMIT_NPROC");
    if (const auto pids = cgroup_limit("pids", "pids.max"))
      texts.push_back(fmt::format("pids.max of the cgroup = {}", *pids));
  }
  return texts;
}

std::string_view way_out(Resource resource) {
  switch (resource) {
    case Resource::threads:
      return "raise it (`ulimit -u`, `ulimit -v`, the container's pids limit), or use fewer "
             "threads: runtime.threads, OMP_NUM_THREADS";
    case Resource::memory:
      return "raise it (`ulimit -v`, the job's memory), or use more ranks, a smaller "
             "training.batch_size or dataset.max_length";
    case Resource::descriptors:
      break;
  }
  return "raise it with `ulimit -n`";
}

bool mentions(std::string_view text, int number) {
  return text.find(std::strerror(number)) != std::string_view::npos;
}

std::string first_line_of(const std::exception& thrown) {
  const auto* own = dynamic_cast<const Error*>(&thrown);
  const std::string_view text = own ? own->fact().c_str() : thrown.what();
  return std::string(text.substr(0, text.find('\n')));
}

}  // namespace

std::string limits_on(Resource resource) {
  const Texts texts = limit_texts(resource);
  return texts.empty() ? "no limit of this process" : fmt::format("{}", fmt::join(texts, ", "));
}

Error limit_error(Resource resource, const std::string& fact) {
  return {ErrorKind::config, "limits", fmt::format("{} ({})", fact, limits_on(resource)),
          way_out(resource)};
}

std::optional<Error> as_limit_error(const std::exception& thrown) {
  if (dynamic_cast<const std::bad_alloc*>(&thrown))
    return limit_error(Resource::memory, "no memory left on the host");
  const std::string text = first_line_of(thrown);
  const auto* system = dynamic_cast<const std::system_error*>(&thrown);
  if (system && system->code() == std::errc::resource_unavailable_try_again)
    return limit_error(Resource::threads, "cannot start another thread: " + text);
  if (mentions(text, EMFILE)) return limit_error(Resource::descriptors, text);
  if (mentions(text, ENOMEM) || text.find("can't allocate memory") != std::string::npos)
    return limit_error(Resource::memory, text);
  return std::nullopt;
}

void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

void require_threads(int count) {
  std::mutex mutex;
  std::condition_variable changed;
  bool enough = false;
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(std::max(count, 0)));
  std::optional<Error> refused;
  try {
    while (static_cast<int>(threads.size()) < count)
      threads.emplace_back([&] {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return enough; });
      });
  } catch (const std::exception& thrown) {
    refused = limit_error(Resource::threads,
                          fmt::format("only {} of {} threads that are needed can be started: {}",
                                      threads.size(), count, thrown.what()));
  }
  {
    const std::lock_guard lock(mutex);
    enough = true;
  }
  changed.notify_all();
  for (std::thread& thread : threads) thread.join();
  if (refused) throw *refused;
}

}  // namespace wmtp

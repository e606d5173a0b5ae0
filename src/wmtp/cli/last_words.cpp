#include "wmtp/cli/last_words.h"

#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <system_error>

#include "wmtp/core/resource_limits.h"

namespace wmtp::cli {
namespace {

std::atomic<bool> in_main{false};
std::terminate_handler usual_terminate = nullptr;

[[noreturn]] void leave_with(std::string_view text) {
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, text.data(), text.size());
  ::_exit(static_cast<int>(ExitCode::config));
}

// Without the heap, of which there is nothing left.
[[noreturn]] void leave_for_memory() {
  std::array<char, 200> text{};
  rlimit limit{};
  ::getrlimit(RLIMIT_AS, &limit);
  const char* const format =
      limit.rlim_cur == RLIM_INFINITY
          ? "wmtp: [limits] no memory left on the host\n"
          : "wmtp: [limits] no memory left on the host (RLIMIT_AS = %llu MiB); raise it with "
            "`ulimit -v`\n";
  std::snprintf(text.data(), text.size(), format,
                static_cast<unsigned long long>(limit.rlim_cur >> 20));
  leave_with(text.data());
}

[[noreturn]] void leave_for_threads(const std::system_error& thrown) {
  leave_with("wmtp: " + std::string(as_limit_error(thrown)->what()) + "\n");
}

[[noreturn]] void on_terminate() {
  if (const std::exception_ptr thrown = std::current_exception()) {
    try {
      std::rethrow_exception(thrown);
    } catch (const std::bad_alloc&) {
      leave_for_memory();
    } catch (const std::system_error& error) {
      if (error.code() == std::errc::resource_unavailable_try_again) leave_for_threads(error);
    } catch (...) {
    }
  }
  if (usual_terminate) usual_terminate();
  std::abort();
}

void on_exit_call() {
  if (!in_main.load()) return;
  const Error error =
      limit_error(Resource::threads, "a library has ended the program, as it does without threads");
  leave_with("wmtp: " + std::string(error.what()) + "\n");
}

}  // namespace

void speak_before_terminate() {
  usual_terminate = std::set_terminate(on_terminate);
}

OnlyMainExits::OnlyMainExits() {
  static const int registered = std::atexit(on_exit_call);
  in_main = registered == 0;
}

OnlyMainExits::~OnlyMainExits() {
  in_main = false;
}

}  // namespace wmtp::cli

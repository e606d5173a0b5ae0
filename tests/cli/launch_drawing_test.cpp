// A bar of rank 0 among the lines of all ranks on the launcher's terminal.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>
#include <termios.h>

#include <array>

#include "wmtp/cli/launcher/frame_splitter.h"
#include "wmtp/cli/launcher/line_prefixer.h"
#include "wmtp/core/live_frame.h"

namespace wmtp::cli {
namespace {

std::string bar(const std::string& line) {
  const std::array lines{line};
  return live_frame(lines);
}

// The program's end of a terminal, and what arrived at the other.
class Terminal {
 public:
  Terminal() : main_(::posix_openpt(O_RDWR | O_NOCTTY)) {
    ::grantpt(main_);
    ::unlockpt(main_);
    program_ = ::open(::ptsname(main_), O_RDWR | O_NOCTTY);
    termios settings{};
    ::tcgetattr(program_, &settings);
    ::cfmakeraw(&settings);
    ::tcsetattr(program_, TCSANOW, &settings);
  }
  ~Terminal() {
    ::close(program_);
    ::close(main_);
  }
  int fd() const { return program_; }
  std::string text() const {
    std::string all;
    std::array<char, 4096> bytes;
    for (pollfd item{main_, POLLIN, 0}; ::poll(&item, 1, 100) == 1;) {
      const ssize_t got = ::read(main_, bytes.data(), bytes.size());
      if (got <= 0) break;
      all.append(bytes.data(), static_cast<std::size_t>(got));
    }
    return all;
  }

 private:
  int main_, program_;
};

LinePrefixer rank_on(Console& console, int rank) {
  LinePrefixer::Route route;
  route.source = rank;
  if (rank != 0) route.prefix = "[rank " + std::to_string(rank) + "] ";
  route.console = &console;
  route.pass_through = rank == 0;
  return LinePrefixer(route);
}

TEST(FrameSplitter, TakesDrawingsOutHoweverTheyArrive) {
  const std::string stream = "a\n" + bar("one") + "\x1b[1mb\n" + bar("two") + "c";
  for (std::size_t size = 1; size <= stream.size(); ++size) {
    FrameSplitter splitter;
    std::string text;
    std::vector<std::string> frames;
    for (std::size_t at = 0; at < stream.size(); at += size) {
      splitter.add(std::string_view(stream).substr(at, size));
      while (const auto piece = splitter.next())
        piece->is_frame ? frames.push_back(piece->bytes) : void(text += piece->bytes);
    }
    EXPECT_EQ(text + splitter.rest(), "a\n\x1b[1mb\nc") << size;
    EXPECT_EQ(frames, (std::vector{bar("one"), bar("two")})) << size;
  }
}

TEST(LaunchConsole, ALineOfAnotherRankTakesTheBarOffFirst) {
  const Terminal terminal;
  Console console(terminal.fd());
  LinePrefixer zero = rank_on(console, 0), one = rank_on(console, 1);
  const auto now = Clock::now();
  const std::string first = bar("step 1"), second = bar("step 2");
  zero.feed(first.substr(0, 12), now);  // half of it: nothing is drawn
  one.feed("early\n", now);
  zero.feed(first.substr(12), now);
  one.feed("wa", now);
  one.feed("rning\n", now);
  zero.feed(second, now);
  console.pump();
  EXPECT_EQ(terminal.text(),
            "[rank 1] early\n" + first + std::string(kEraseBelow) + "[rank 1] warning\n" + second);
}

TEST(LaunchConsole, NoDrawingGoesToAFileOrALog) {
  Console nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  Console log(nowhere.fd());
  LinePrefixer::Route route;
  route.console = &nowhere;
  route.log = &log;
  LinePrefixer zero(route);
  zero.feed(bar("step 1"), Clock::now());
  EXPECT_FALSE(nowhere.pending() || log.pending());
  zero.feed("line\n", Clock::now());
  EXPECT_TRUE(nowhere.pending() && log.pending());
  ::close(nowhere.fd());
}

}  // namespace
}  // namespace wmtp::cli

#include "wmtp/cli/standard_output.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <iostream>
#include <streambuf>
#include <string>
#include <string_view>

#include "wmtp/core/printable.h"

namespace wmtp::cli {
namespace {

class DescriptorBuffer final : public std::streambuf {
 public:
  DescriptorBuffer() { empty(); }

  bool may_fail = false;
  Escape escape = Escape::all;
  int error_number = 0;  // of the first write that failed

 protected:
  int_type overflow(int_type next) override {
    if (make_room() != 0) return traits_type::eof();
    if (!traits_type::eq_int_type(next, traits_type::eof())) sputc(traits_type::to_char_type(next));
    return traits_type::not_eof(next);
  }

  // On a terminal every line shows at once.
  std::streamsize xsputn(const char* text, std::streamsize count) override {
    const std::streamsize taken = std::streambuf::xsputn(text, count);
    const bool ends_a_line = std::string_view(text, static_cast<std::size_t>(count)).find('\n') !=
                             std::string_view::npos;
    return on_terminal_ && ends_a_line && sync() != 0 ? 0 : taken;
  }

  int sync() override { return put_out(pptr()); }

 private:
  void empty() { setp(bytes_.data(), bytes_.data() + bytes_.size()); }

  // Whole lines where there are any, so that no character or colour is cut in two.
  int make_room() {
    const std::size_t line_end = std::string_view(pbase(), pptr()).rfind('\n');
    return put_out(line_end == std::string_view::npos ? pptr() : pbase() + line_end + 1);
  }

  // Writes what stands before `end` and keeps the rest.
  int put_out(const char* end) {
    const std::string_view text(pbase(), end), rest(end, pptr());
    const bool written = write(escape == Escape::nothing ? std::string(text) : escaped(text));
    std::memmove(bytes_.data(), rest.data(), rest.size());
    empty();
    pbump(static_cast<int>(rest.size()));
    return written || may_fail ? 0 : -1;
  }

  std::string escaped(std::string_view text) const {
    return escape_control(text, escape == Escape::all ? Colours::escaped : Colours::kept);
  }

  bool write(std::string_view text) {
    const char* begin = text.data();
    const char* const end = begin + text.size();
    while (begin != end) {
      const ssize_t done = ::write(STDOUT_FILENO, begin, static_cast<std::size_t>(end - begin));
      if (done >= 0) {
        begin += done;
      } else if (errno == EAGAIN) {  // whoever shares it has made it non-blocking
        pollfd room{STDOUT_FILENO, POLLOUT, 0};
        ::poll(&room, 1, -1);
      } else if (errno != EINTR) {
        if (error_number == 0) error_number = errno;
        return false;
      }
    }
    return true;
  }

  const bool on_terminal_ = ::isatty(STDOUT_FILENO) == 1;
  std::array<char, 1 << 16> bytes_;
};

// Never destroyed: std::cout is flushed once more when the program ends.
DescriptorBuffer& stdout_buffer() {
  static auto* const buffer = new DescriptorBuffer;
  return *buffer;
}

}  // namespace

void watch_standard_output() {
  std::cout.rdbuf(&stdout_buffer());
  std::cout.exceptions(std::ios::badbit);
}

void set_standard_output_escape(Escape escape) {
  stdout_buffer().escape = escape;
}

void let_standard_output_fail() {
  stdout_buffer().may_fail = true;
}

void finish_standard_output() {
  if (std::cout.good()) std::cout.flush();
  // Reading std::cin flushes std::cout too, and keeps the exception to itself.
  if (!std::cout.good()) throw standard_output_error();
}

bool standard_output_failed() {
  return stdout_buffer().error_number != 0;
}

Error standard_output_error() {
  return {ErrorKind::io, "cli",
          fmt::format("stdout cannot be written: {}", std::strerror(stdout_buffer().error_number))};
}

bool standard_output_is_closed() {
  return stdout_buffer().error_number == EPIPE && !stdout_buffer().may_fail;
}

}  // namespace wmtp::cli

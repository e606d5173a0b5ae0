// One exchange as libcurl's callbacks see it: takes the answer's head and body, gives the request's
// body. Nothing is thrown through libcurl: what goes wrong is kept and thrown by `rethrow`.
#pragma once
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string_view>

#include "wmtp/http/curl_api.h"
#include "wmtp/http/message.h"

namespace wmtp::http {

class Transfer {
 public:
  explicit Transfer(const Request& request);  // BORROWS it

  std::uint64_t upload_bytes() const;
  // Grows whenever a byte of a body or a line of a head has come or gone.
  std::uint64_t num_moved() const { return num_moved_; }
  void rethrow() const;
  // The answer, once libcurl says that it is whole. Failure where it is less than that.
  Response finish();

  // libcurl's callbacks; `self` is the Transfer.
  static std::size_t take_head(char* data, std::size_t size, std::size_t count, void* self);
  static std::size_t take_body(char* data, std::size_t size, std::size_t count, void* self);
  static std::size_t give_body(char* out, std::size_t size, std::size_t count, void* self);
  static int seek_body(void* self, curl_off_t offset, int origin);

 private:
  void take_line(std::string_view line);
  void check_head();
  void check_range() const;
  void take_bytes(std::string_view bytes);
  std::size_t give_bytes(std::span<std::byte> out);
  void rewind();
  [[noreturn]] void refuse(std::string_view fact, std::string_view hint = {}) const;
  [[noreturn]] void refuse_size(std::string_view what, std::string_view limit) const;
  bool goes_to_sink() const;

  const Request& request_;
  HeadReader head_;
  std::string body_;
  std::uint64_t num_moved_ = 0, num_received_ = 0, num_given_ = 0;
  std::exception_ptr error_;
};

}  // namespace wmtp::http

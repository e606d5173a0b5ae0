#include "wmtp/http/transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "wmtp/http/failure.h"

namespace wmtp::http {
namespace {

// Runs `work` and keeps what it throws: libcurl is C and knows no exceptions. Returns whether it
// ended by itself.
template <class Work>
bool run_guarded(std::exception_ptr& error, const Work& work) {
  if (error) return false;
  try {
    work();
    return true;
  } catch (...) {
    error = std::current_exception();
    return false;
  }
}

}  // namespace

std::string shown(const Request& request) {
  return request.method + " " + request.url.shown();
}

Transfer::Transfer(const Request& request) : request_(request) {
  if (request_.source) request_.source->rewind();
}

std::uint64_t Transfer::upload_bytes() const {
  return request_.source ? request_.source->size() : request_.body.size();
}

void Transfer::rethrow() const {
  if (error_) std::rethrow_exception(error_);
}

std::size_t Transfer::take_head(char* data, std::size_t size, std::size_t count, void* self) {
  auto& transfer = *static_cast<Transfer*>(self);
  const std::size_t num_bytes = size * count;
  const bool good =
      run_guarded(transfer.error_, [&] { transfer.take_line(std::string_view(data, num_bytes)); });
  return good ? num_bytes : 0;
}

std::size_t Transfer::take_body(char* data, std::size_t size, std::size_t count, void* self) {
  auto& transfer = *static_cast<Transfer*>(self);
  const std::size_t num_bytes = size * count;
  const bool good =
      run_guarded(transfer.error_, [&] { transfer.take_bytes(std::string_view(data, num_bytes)); });
  return good ? num_bytes : num_bytes + 1;  // any other number than theirs ends the transfer
}

std::size_t Transfer::give_body(char* out, std::size_t size, std::size_t count, void* self) {
  auto& transfer = *static_cast<Transfer*>(self);
  std::size_t given = 0;
  const bool good = run_guarded(transfer.error_, [&] {
    given = transfer.give_bytes(std::as_writable_bytes(std::span(out, size * count)));
  });
  return good ? given : CURL_READFUNC_ABORT;
}

int Transfer::seek_body(void* self, curl_off_t offset, int origin) {
  auto& transfer = *static_cast<Transfer*>(self);
  if (offset != 0 || origin != SEEK_SET) return CURL_SEEKFUNC_CANTSEEK;
  return run_guarded(transfer.error_, [&] { transfer.rewind(); }) ? CURL_SEEKFUNC_OK
                                                                  : CURL_SEEKFUNC_FAIL;
}

void Transfer::refuse(std::string_view fact, std::string_view hint) const {
  throw Failure(FailureKind::malformed, fmt::format("{}: the answer {}", shown(request_), fact),
                hint);
}

void Transfer::refuse_size(std::string_view what, std::string_view limit) const {
  throw Failure(FailureKind::too_large,
                fmt::format("{}: {} of more than {} in the answer (status {})", shown(request_),
                            what, limit, head_.status()),
                "is this the server that was meant?");
}

bool Transfer::goes_to_sink() const {
  return request_.sink && head_.status() >= 200 && head_.status() < 300;
}

void Transfer::take_line(std::string_view line) {
  ++num_moved_;
  if (head_.is_complete()) return;
  const std::string_view fault = head_.take(line);
  if (head_.is_too_large())
    refuse_size("a head", fmt::format("{} bytes or {} lines", kMaxHeadBytes, kMaxHeadLines));
  if (!fault.empty()) refuse(fault, "is a server of HTTP/1.1 at this address and port?");
  if (head_.is_complete()) check_head();
}

void Transfer::check_head() {
  if (request_.method == "HEAD") return;
  if (request_.range && head_.status() >= 200 && head_.status() < 300) check_range();
  if (goes_to_sink()) {
    request_.sink->begin(head_.status(), head_.headers());
    return;
  }
  const auto length = head_.headers().find("Content-Length");
  const auto num_bytes = length ? parse_decimal(*length) : std::nullopt;
  if (num_bytes && *num_bytes > request_.max_body_bytes)
    refuse_size("a body", fmt::format("{} bytes", request_.max_body_bytes));
}

void Transfer::check_range() const {
  const ByteRange& wanted = *request_.range;
  if (head_.status() != 206)
    refuse(fmt::format("has the status {} where a part was asked for (bytes {} to {})",
                       head_.status(), wanted.first, wanted.first + wanted.length - 1),
           "the server, or a proxy before it, ignores the Range header");
  const auto text = head_.headers().find("Content-Range");
  const auto given = text ? parse_content_range(*text) : std::nullopt;
  if (!given) refuse("has a part of the body without saying which (Content-Range)");
  if (given->first != wanted.first || given->last - given->first + 1 != wanted.length)
    refuse(fmt::format("has the bytes {} to {} where {} to {} were asked for", given->first,
                       given->last, wanted.first, wanted.first + wanted.length - 1));
}

void Transfer::take_bytes(std::string_view bytes) {
  num_moved_ += bytes.size();
  num_received_ += bytes.size();
  if (request_.range && head_.status() == 206 && num_received_ > request_.range->length)
    refuse(fmt::format("has more than the {} bytes that were asked for", request_.range->length));
  if (goes_to_sink()) {
    request_.sink->write(std::as_bytes(std::span(bytes.data(), bytes.size())));
    return;
  }
  if (num_received_ > request_.max_body_bytes)
    refuse_size("a body", fmt::format("{} bytes", request_.max_body_bytes));
  body_ += bytes;
}

std::size_t Transfer::give_bytes(std::span<std::byte> out) {
  const std::uint64_t left = upload_bytes() - num_given_;
  const auto most = static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), left));
  if (most == 0) return 0;
  std::size_t given = most;
  if (request_.source) {
    given = request_.source->read(out.first(most));
    // libcurl would leave the server waiting for the rest.
    if (given == 0)
      throw Error(ErrorKind::io, "http",
                  fmt::format("{}: the body to send ends after {} of {} bytes", shown(request_),
                              num_given_, upload_bytes()),
                  "was the file cut while it was being sent?");
  } else {
    std::memcpy(out.data(), request_.body.data() + num_given_, most);
  }
  num_given_ += given;
  num_moved_ += given;
  return given;
}

void Transfer::rewind() {
  if (request_.source) request_.source->rewind();
  num_given_ = 0;
}

Response Transfer::finish() {
  // libcurl takes a connection that ends inside a head for the end of that head.
  if (!head_.is_complete())
    throw Failure(FailureKind::reset,
                  shown(request_) + ": the connection ended inside the answer's head");
  const bool is_part = request_.range && head_.status() == 206 && request_.method != "HEAD";
  if (is_part && num_received_ != request_.range->length)
    refuse(fmt::format("has {} of the {} bytes that were asked for", num_received_,
                       request_.range->length));
  return {head_.status(), std::move(head_.headers()), std::move(body_)};
}

}  // namespace wmtp::http

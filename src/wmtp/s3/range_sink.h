// A range of an object, on the condition that the object is still the one that reading began with.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "wmtp/http/message.h"

namespace wmtp::s3 {

class RangeSink : public http::BodySink {
 public:
  // Bytes and where they lie within the range; from 0 on again with each try.
  using Write = std::function<void(std::uint64_t offset, std::span<const std::byte> bytes)>;

  // `shown` is the object's name for people. Another ETag is an S3Error bad_digest.
  RangeSink(std::string etag, std::string shown, Write write)
      : etag_(std::move(etag)), shown_(std::move(shown)), write_(std::move(write)) {}
  void begin(int status, const http::Headers& headers) override;
  void write(std::span<const std::byte> bytes) override;

 private:
  std::string etag_, shown_;
  Write write_;
  std::uint64_t done_ = 0;
};

}  // namespace wmtp::s3

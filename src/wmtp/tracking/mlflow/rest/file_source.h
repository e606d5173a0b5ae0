// A part of a file as the body of a request.
#pragma once
#include <cstdint>
#include <filesystem>

#include "wmtp/core/unique_fd.h"
#include "wmtp/http/message.h"

namespace wmtp::tracking::mlflow {

class FileSource : public http::BodySource {
 public:
  // The whole file, as long as it is now. Error io where it is no regular file that can be read.
  explicit FileSource(const std::filesystem::path& path);

  // From now on the body is this part. REQUIRES it to lie within the file.
  void select(std::uint64_t first, std::uint64_t length);
  std::uint64_t file_bytes() const { return file_bytes_; }

  std::uint64_t size() const override { return length_; }
  std::size_t read(std::span<std::byte> out) override;
  void rewind() override { done_ = 0; }

 private:
  std::filesystem::path path_;
  UniqueFd file_;
  std::uint64_t file_bytes_ = 0, first_ = 0, length_ = 0, done_ = 0;
};

}  // namespace wmtp::tracking::mlflow

// A file of the local disk. Once it is told that many bytes will come, they go past the page cache
// in large aligned blocks, one being written while the next is filled: a fraction of the processor
// time of plain writes, nothing evicted from the cache, nothing left for fsync to push out.
#pragma once
#include <array>
#include <cstdlib>
#include <future>
#include <memory>

#include "wmtp/storage/file_system.h"
#include "wmtp/storage/open_file.h"

namespace wmtp::storage {

class LocalOutput final : public OutputFile {
 public:
  explicit LocalOutput(const std::filesystem::path& path);  // it must not exist

  void expect(std::uint64_t total_bytes) override;
  void write(std::span<const std::byte> bytes) override;
  void sync() override;
  void close() override;

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  struct Block {
    std::unique_ptr<std::byte, Free> bytes;
    std::future<void> sent;
  };
  void send_block();
  void push_out();  // what is unsynced, once it is much
  void finish_blocks();
  void write_at(std::span<const std::byte> bytes, std::uint64_t offset);

  std::filesystem::path path_;
  UniqueFd file_;
  std::uint64_t written_ = 0, synced_ = 0;
  std::size_t filled_ = 0;            // of the block that is being filled
  std::array<Block, 2> blocks_ = {};  // no memory: plain writes. After file_: its writes end first
  std::size_t current_ = 0;
};

}  // namespace wmtp::storage

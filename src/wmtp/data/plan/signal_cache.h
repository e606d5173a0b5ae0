// What a frozen model said of the tokens of a data set, kept on disk: one fp32 number per token of
// every sample that a run has shown it. The folder is named by a key over everything that decides
// the numbers; each process appends to a part file of its own and reads all of them, so that any
// number of ranks and runs may share it.
//   part-<random>.wsig: "WMTPSIG1", the key (64 hex digits), then records {u64 sample, u32 part,
//   u32 length, length x fp32, u32 CRC-32C of the record}; little-endian
// A record that was not written to its end is as good as absent, with all that follows it in its
// file.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "wmtp/data/plan/host_batch.h"
#include "wmtp/storage/open_file.h"

namespace wmtp::data {

// A document of a batch: which sample it is, and where its tokens stand.
struct SignalRow {
  std::uint64_t sample_id = 0;
  std::uint32_t part = 0;  // of a sample that is several documents
  std::uint32_t begin = 0, length = 0;
};
std::vector<SignalRow> signal_rows(const HostBatch& batch);  // fillers left out

// THREADS: one at a time.
class SignalCache {
 public:
  // Reads what is there; the folder is made with the first row. A part file of another key is left
  // out with a notice.
  SignalCache(std::filesystem::path folder, std::string key);

  std::size_t num_rows() const { return rows_.size(); }
  // Error data where the stored row has another length.
  bool has(const SignalRow& row) const;
  // N numbers, 0 outside the documents; nothing unless every document is there.
  std::vector<float> find(const HostBatch& batch) const;

  // Keeps the row's numbers, of all of the batch, unless they are there. Nothing is visible or on
  // disk before flush().
  void append(const SignalRow& row, std::span<const float> signals_N);
  // A disk that does not take them costs a warning, and no more rows are kept.
  void flush();

  const std::filesystem::path& folder() const { return folder_; }

 private:
  using Id = std::pair<std::uint64_t, std::uint32_t>;
  struct Place {
    std::size_t file = 0;
    std::uint64_t offset = 0;  // of the numbers
    std::uint32_t length = 0;
  };
  struct Part {
    std::filesystem::path path;
    UniqueFd file;
  };
  void read_part(const std::filesystem::path& path);
  void open_own();
  void read(const Place& place, std::span<float> out) const;
  void check_length(const Place& place, const SignalRow& row) const;

  std::filesystem::path folder_;
  std::string key_;
  std::vector<Part> parts_;
  std::map<Id, Place> rows_;
  std::size_t own_ = 0;  // index in parts_, once opened
  std::uint64_t own_size_ = 0;
  bool opened_ = false, broken_ = false;
  std::string pending_;  // encoded records
  std::vector<std::pair<Id, Place>> pending_rows_;
};

}  // namespace wmtp::data

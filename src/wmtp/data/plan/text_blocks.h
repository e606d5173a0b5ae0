// Plain text as blocks of exactly T tokens: documents one after the other, cut every T tokens.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "wmtp/data/corpus.h"

namespace wmtp::data {

struct DocumentOrder {
  bool shuffled = false;  // text.shuffle: documents
  std::uint64_t seed = 0, epoch = 0;
};

// The stream of all documents in file order, or permuted for one epoch (12 bytes per document
// then).
class TextBlocks {
 public:
  TextBlocks(std::shared_ptr<const Corpus> corpus, const DocumentOrder& order);

  // A corpus under T tokens is one short block; otherwise `drop_tail` decides about the last one.
  std::uint64_t num_blocks() const { return num_blocks_; }
  std::uint64_t num_dropped_tokens() const;

  // Calls visit(begin, length) for the parts of a block: itself, or with text.document_mask each
  // document's part of it. `begin` is a place in the stream.
  void visit_parts(std::uint64_t block,
                   const std::function<void(std::uint64_t, std::uint32_t)>& visit) const;
  void copy(std::uint64_t begin, std::span<std::int32_t> out) const;

 private:
  struct Document {
    std::uint64_t begin = 0, length = 0;  // in file order
  };
  Document document(std::uint64_t number) const;          // of the file order
  std::uint64_t document_end(std::uint64_t place) const;  // end of the document that holds `place`
  void find_documents();
  void permute(const DocumentOrder& order);
  void copy_in_file_order(std::uint64_t begin, std::span<std::int32_t> out) const;

  std::shared_ptr<const Corpus> corpus_;
  std::uint32_t block_tokens_;
  std::uint64_t num_tokens_ = 0, num_blocks_ = 0;
  std::vector<std::uint64_t> file_base_;     // first stream place of each file
  std::vector<std::uint32_t> first_row_;     // of each document, rows numbered through all files
  std::vector<std::uint64_t> permuted_end_;  // ends in the permuted stream
  std::vector<std::uint32_t> permuted_;      // document at each permuted position
};

}  // namespace wmtp::data

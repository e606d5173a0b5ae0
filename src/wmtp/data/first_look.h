// What can be told of data files at once, before they are indexed and tokenized.
#pragma once
#include <cstdint>
#include <optional>

#include "wmtp/data/options.h"
#include "wmtp/tokenizer/tokenizer.h"

namespace wmtp::data {

// Of each file the lines of its first 64 MiB are counted, and the rest is taken to be like them; of
// text, which is cut into blocks of max_length tokens, 64 KiB are encoded. Nothing for a compressed
// file that goes on after that, for text without a tokenizer (null), and for token files, whose own
// header tells.
using AboutRows = std::optional<std::uint64_t>;

// Writes nothing. Error config for files that are not there, folders, and files of different
// formats; data for an empty file and, where bad lines stop a run, a first line that is no row.
AboutRows look_at_files(const DatasetOptions& options, const tokenizer::Tokenizer* tokenizer);

}  // namespace wmtp::data

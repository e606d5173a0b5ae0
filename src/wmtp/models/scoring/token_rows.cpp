#include "wmtp/models/scoring/token_rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "wmtp/core/error.h"
#include "wmtp/core/json.h"
#include "wmtp/core/log.h"
#include "wmtp/data/corpus.h"
#include "wmtp/data/file_format.h"
#include "wmtp/data/index/row_schema.h"
#include "wmtp/data/index/source_file.h"
#include "wmtp/data/tokens/chunk_encoder.h"
#include "wmtp/tokenizer/tokenizer.h"

namespace wmtp::models {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxLineBytes = std::uint64_t{16} << 20;
constexpr JsonLimits kRowLimits{kMaxLineBytes, 8};

[[noreturn]] void refuse_row(const std::string& place, std::string_view fact) {
  throw Error(ErrorKind::data, "data", fmt::format("{}: {}", place, fact));
}

class IdRows final : public TokenRowSource {
 public:
  IdRows(const fs::path& file, const TokenRowOptions& options)
      : file_(file), options_(options), chunks_(file, kMaxLineBytes) {}

  bool next(std::vector<TokenRow>& rows) override {
    data::LineChunk chunk;
    if (!chunks_.next(chunk)) return false;
    if (chunk.overlong_bytes > 0)
      refuse_row(fmt::format("{}:{}", file_.string(), line_number_ + 1),
                 fmt::format("the line has {} bytes, the limit is {}", chunk.overlong_bytes,
                             kMaxLineBytes));
    data::for_each_line(chunk, [&](const data::Line& line) {
      ++line_number_;
      if (data::is_blank(line.text)) return;
      rows.push_back(parse(line.text));
      note_length(rows.back().ids.size());
    });
    return true;
  }

 private:
  TokenRow parse(std::string_view line) const {
    const std::string place = fmt::format("{}:{}", file_.string(), line_number_);
    const Json json = parse_json(line, place, kRowLimits);
    const auto ids = json.is_object() ? json.find("ids") : json.end();
    if (!json.is_object() || ids == json.end() || !ids->is_array())
      refuse_row(place, "the row has no list \"ids\"");
    const auto vocab_size = static_cast<std::uint64_t>(options_.vocab_size);
    TokenRow row;
    row.ids.reserve(ids->size());
    for (const Json& id : *ids) {
      if (!id.is_number_integer())
        refuse_row(place, fmt::format("ids[{}] is no integer", row.ids.size()));
      const bool inside = (id.is_number_unsigned() || id.get<std::int64_t>() >= 0) &&
                          id.get<std::uint64_t>() < vocab_size;
      if (!inside)
        refuse_row(place, fmt::format("ids[{}] is {}, outside the model's vocabulary of {}",
                                      row.ids.size(), id.dump(), vocab_size));
      row.ids.push_back(id.get<std::int32_t>());
    }
    return row;
  }

  void note_length(std::size_t length) {
    if (warned_ || length <= static_cast<std::size_t>(options_.max_positions)) return;
    warned_ = true;
    log::warn("score", "{}:{}: {} ids, the model was made for {} positions", file_.string(),
              line_number_, length, options_.max_positions);
  }

  fs::path file_;
  TokenRowOptions options_;
  data::LineChunkSource chunks_;
  std::uint64_t line_number_ = 0;
  bool warned_ = false;
};

// Instruction rows and documents, through the encoder that training uses.
class EncodedRows final : public TokenRowSource {
 public:
  EncodedRows(const fs::path& file, data::Format format, const TokenRowOptions& options)
      : file_(file),
        options_(options),
        tokenizer_(tokenizer::load_tokenizer(options.tokenizer)),
        identity_(identity_of(format)),
        encoder_(identity_, *tokenizer_) {
    if (data::is_text_file(file))
      documents_ = std::make_unique<data::TextDocumentSource>(
          file, identity_.text.document_separator, kMaxLineBytes);
    else
      lines_ = std::make_unique<data::LineChunkSource>(file, kMaxLineBytes);
  }

  bool next(std::vector<TokenRow>& rows) override {
    data::TokenRows encoded;
    if (documents_) {
      data::TextBatch batch;
      if (!documents_->next(batch)) return false;
      encoded = encoder_.pieces(batch);
    } else {
      data::LineChunk chunk;
      if (!lines_->next(chunk)) return false;
      encoded = encoder_.lines(chunk);
      for (data::BadLine& bad : encoded.bad) bad.row += num_lines_;
      num_lines_ += encoded.length.size();
    }
    if (!encoded.bad.empty())
      throw Error(ErrorKind::data, "data",
                  data::format_bad_line(file_.string(), encoded.bad.front()));
    append(encoded, rows);
    return true;
  }

 private:
  static data::CacheIdentity identity_of(data::Format format) {
    data::CacheIdentity identity;
    identity.kind =
        format == data::Format::instruct ? data::CacheKind::rows : data::CacheKind::documents;
    identity.bad_lines.max_line_bytes = kMaxLineBytes;
    return identity;
  }

  void append(const data::TokenRows& encoded, std::vector<TokenRow>& rows) const {
    const auto longest = static_cast<std::size_t>(options_.max_positions);
    std::size_t at = 0;
    for (std::size_t i = 0; i < encoded.length.size(); ++i) {
      std::span<const std::int32_t> ids = std::span(encoded.ids).subspan(at, encoded.length[i]);
      at += ids.size();
      check_ids(ids);
      if (identity_.kind == data::CacheKind::rows) ids = ids.first(std::min(ids.size(), longest));
      for (; !ids.empty(); ids = ids.subspan(std::min(ids.size(), longest))) {
        const auto piece = ids.first(std::min(ids.size(), longest));
        rows.push_back({{piece.begin(), piece.end()}, encoded.prompt_len[i]});
      }
    }
  }

  void check_ids(std::span<const std::int32_t> ids) const {
    if (ids.empty()) return;
    if (const auto highest = *std::ranges::max_element(ids); highest >= options_.vocab_size)
      throw Error(ErrorKind::config, "data",
                  fmt::format("{} gives the id {}, the model's vocabulary has {}",
                              options_.tokenizer.string(), highest, options_.vocab_size),
                  "do the tokenizer and the model belong together?");
  }

  fs::path file_;
  TokenRowOptions options_;
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer_;
  data::CacheIdentity identity_;
  data::ChunkEncoder encoder_;
  std::unique_ptr<data::LineChunkSource> lines_;
  std::unique_ptr<data::TextDocumentSource> documents_;
  std::uint64_t num_lines_ = 0;
};

// Whether the first good line has the key "ids".
bool holds_ids(const fs::path& file) {
  if (data::is_text_file(file)) return false;
  data::LineChunkSource source(file, kMaxLineBytes, std::size_t{1} << 20);
  data::LineChunk chunk;
  if (!source.next(chunk) || chunk.overlong_bytes > 0) return false;
  data::RowParser parser;
  std::vector<std::string> names;
  data::for_each_line(chunk, [&](const data::Line& line) {
    if (names.empty() && !data::is_blank(line.text)) parser.keys(line, names);
  });
  return std::ranges::find(names, "ids") != names.end();
}

}  // namespace

std::unique_ptr<TokenRowSource> open_token_rows(const fs::path& file,
                                                const TokenRowOptions& options) {
  if (!fs::is_regular_file(file))
    throw Error(ErrorKind::config, "data", fmt::format("there is no file {}", file.string()));
  if (holds_ids(file)) return std::make_unique<IdRows>(file, options);
  const data::Format format = data::detect_format(file, {});
  if (format == data::Format::tokens)
    throw Error(ErrorKind::config, "data",
                fmt::format("{} is a token cache; give the file it was made from", file.string()));
  if (options.tokenizer.empty())
    throw Error(ErrorKind::config, "data",
                fmt::format("{} holds text, but the model has no tokenizer", file.string()),
                "give rows {\"ids\": [..]}, or a model folder with a tokenizer");
  return std::make_unique<EncodedRows>(file, format, options);
}

}  // namespace wmtp::models

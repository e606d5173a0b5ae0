#include "wmtp/data/tokens/cache_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "wmtp/core/file.h"
#include "wmtp/core/log.h"
#include "wmtp/core/time.h"
#include "wmtp/data/index/line_chunks.h"
#include "wmtp/data/index/source_file.h"
#include "wmtp/data/index/text_documents.h"
#include "wmtp/data/ordered_parallel.h"
#include "wmtp/data/progress.h"
#include "wmtp/data/tokens/chunk_encoder.h"
#include "wmtp/storage/atomic_file.h"

namespace wmtp::data {
namespace {

class CacheWriter {
 public:
  CacheWriter(const CacheRequest& request, const std::filesystem::path& path)
      : request_(request),
        path_(path),
        bad_(request.file.string(), request.identity.bad_lines),
        by_line_(request.identity.kind == CacheKind::rows || !is_text_file(request.file)) {
    const std::filesystem::path folder = path.parent_path().empty() ? "." : path.parent_path();
    for (int i = 0; i < 4; ++i) spools_.emplace_back(folder);
    facts_.vocab_size = static_cast<std::uint64_t>(request.tokenizer->vocab_size());
    facts_.token_bytes = facts_.vocab_size <= 65536 ? 2 : 4;
    facts_.kind = request.identity.kind;
    spools_[0].append_values(std::span<const std::uint64_t>(&facts_.num_tokens, 1));
  }

  void add(TokenRows rows) {
    check_against_index(rows);
    std::vector<std::uint64_t> ends;
    for (std::size_t i = 0; i < rows.length.size(); ++i) {
      ends.push_back(facts_.num_tokens += rows.length[i]);
      facts_.boundary_merges += (rows.flags[i] & kTokenRowMerged) != 0;
      facts_.cut_rows += (rows.flags[i] & kTokenRowCut) != 0;
      facts_.split_documents += (rows.flags[i] & kTokenRowContinues) != 0;
    }
    spools_[0].append_values(std::span<const std::uint64_t>(ends));
    spools_[1].append_values(std::span<const std::uint32_t>(rows.prompt_len));
    spools_[2].append_values(std::span<const std::uint8_t>(rows.flags));
    add_tokens(rows.ids);
    for (BadLine& bad : rows.bad) {
      if (by_line_) bad.row += facts_.num_rows;
      bad_.add(std::move(bad));
    }
    facts_.num_rows += rows.length.size();
    facts_.num_blank += rows.num_blank;
    facts_.num_empty_documents += rows.num_empty_documents;
    if (!request_.index && bad_.hopeless()) bad_.judge(facts_.num_rows);
  }

  CacheFacts finish() {
    if (!request_.index) bad_.judge(std::max(facts_.num_rows, bad_.total()));
    if (request_.index && facts_.num_rows != request_.index->num_rows()) disagree(facts_.num_rows);
    if (facts_.num_tokens == 0)
      throw Error(ErrorKind::data, "data",
                  fmt::format("{} has no tokens ({} lines, {} blank, {} bad, {} empty documents)",
                              request_.file.string(), facts_.num_rows, facts_.num_blank,
                              bad_.total(), facts_.num_empty_documents));
    const auto copy = [](const Sha256Digest& from, std::uint8_t* to) {
      std::copy(from.begin(), from.end(), to);
    };
    copy(request_.identity.data_fingerprint, facts_.data_fingerprint);
    copy(sha256(request_.identity.tokenizer_fingerprint), facts_.tokenizer_fingerprint);
    copy(cache_key(request_.identity), facts_.key);
    std::copy(bad_.counts().begin(), bad_.counts().end(), facts_.bad_counts);
    SectionFileContent content;
    content.format = cache_format();
    content.facts = std::as_bytes(std::span(&facts_, 1));
    content.failpoints = "cache";
    for (SectionSpool& spool : spools_) content.sections.push_back(&spool);
    write_section_file(path_, content);
    return facts_;
  }

 private:
  void add_tokens(const std::vector<tokenizer::TokenId>& ids) {
    if (facts_.token_bytes == 4)
      return spools_[3].append_values(std::span<const tokenizer::TokenId>(ids));
    narrow_.assign(ids.begin(), ids.end());
    spools_[3].append_values(std::span<const std::uint16_t>(narrow_));
  }

  void check_against_index(const TokenRows& rows) const {
    if (!request_.index) return;
    for (std::size_t i = 0; i < rows.flags.size(); ++i) {
      const std::uint64_t row = facts_.num_rows + i;
      const bool kept = row < request_.index->num_rows() &&
                        !(request_.index->flags()[row] & (kRowBlank | kRowBad));
      if (kept != !(rows.flags[i] & kTokenRowEmpty)) disagree(row);
    }
  }

  [[noreturn]] void disagree(std::uint64_t row) const {
    throw Error(ErrorKind::data, "data",
                fmt::format("{}:{}: the file no longer agrees with its index {}",
                            request_.file.string(), row + 1, request_.index->path().string()),
                fmt::format("is it being written? build again: wmtp data index --force {}",
                            request_.file.string()));
  }

  const CacheRequest& request_;
  std::filesystem::path path_;
  BadLineLog bad_;
  bool by_line_;
  std::vector<SectionSpool> spools_;
  std::vector<std::uint16_t> narrow_;
  CacheFacts facts_{};
};

}  // namespace

Sha256Digest fingerprint_of(const std::filesystem::path& file, const CacheOptions& cache) {
  const FileStamp stamp = stamp_of(file);
  const std::string key =
      sha256_hex(std::filesystem::absolute(file).lexically_normal().string()).substr(0, 8);
  const std::filesystem::path note =
      cache_folder(file, cache) / fmt::format("{}-{}.stamp", stem_of(file), key);
  const std::string head = fmt::format("{} {} ", stamp.bytes, stamp.mtime_ns);
  try {
    const std::string text = std::filesystem::exists(note) ? read_file(note, 4096) : "";
    if (text.starts_with(head) && text.size() >= head.size() + 64) {
      Sha256Digest digest;
      for (std::size_t i = 0; i < 32; ++i)
        digest[i] =
            static_cast<std::uint8_t>(std::stoul(text.substr(head.size() + 2 * i, 2), nullptr, 16));
      return digest;
    }
  } catch (const std::exception&) {  // an unreadable note only costs the time to hash again
  }
  if (cache.look_only)
    throw MissingCache(fmt::format("{} has not been read yet", file.string()),
                       fmt::format("wmtp data tokenize {}", file.string()));
  const Sha256Digest digest = fingerprint_file(file);
  try {
    storage::write_file_atomically(note, head + to_hex(digest) + "\n");
  } catch (const Error& error) {
    log::debug("data", "{}", error.what());
  }
  return digest;
}

std::filesystem::path cache_path(const CacheRequest& request, const CacheOptions& cache) {
  const std::string key = to_hex(cache_key(request.identity)).substr(0, 16);
  return cache_folder(request.file, cache) / fmt::format("{}-{}.wtok", stem_of(request.file), key);
}

CacheReport build_cache(const CacheRequest& request, const std::filesystem::path& path) {
  const auto start = Clock::now();
  const ChunkEncoder encoder(request.identity, *request.tokenizer);
  CacheWriter writer(request, path);
  CacheReport report;
  report.path = path;
  report.source_bytes = stamp_of(request.file).bytes;
  Progress progress("tokenizing", request.file, report.source_bytes);
  const auto run = [&](auto source, auto item, auto encode) {
    ordered_parallel<decltype(item)>(
        request.num_threads, [&](auto& input) { return source.next(input); }, encode,
        [&](TokenRows rows) {
          const std::uint64_t end = rows.end_offset;
          progress.advance(end, rows.length.size());
          writer.add(std::move(rows));
          source.done_until(end);
        });
  };
  const std::uint64_t limit = request.identity.bad_lines.max_line_bytes;
  if (request.identity.kind == CacheKind::documents && is_text_file(request.file))
    run(TextDocumentSource(request.file, request.identity.text.document_separator, limit),
        TextBatch{}, [&](const TextBatch& batch) { return encoder.pieces(batch); });
  else
    run(LineChunkSource(request.file, limit, std::size_t{1} << 20), LineChunk{},
        [&](const LineChunk& chunk) { return encoder.lines(chunk); });
  report.facts = writer.finish();
  report.seconds = seconds_since(start);
  return report;
}

TokenCache open_or_build_cache(const CacheRequest& request, const CacheOptions& cache) {
  const std::filesystem::path path = cache_path(request, cache);
  const auto current = [&] {
    if (cache.force || !std::filesystem::exists(path)) return false;
    const auto bytes = SectionFile::peek_facts(path, cache_format());
    if (bytes.empty()) return true;  // right name, damaged: open() says where
    CacheFacts facts;
    std::memcpy(&facts, bytes.data(), sizeof(facts));
    const Sha256Digest key = cache_key(request.identity);
    return std::equal(key.begin(), key.end(), facts.key);
  };
  if (current()) return TokenCache::open(path);
  if (!cache.auto_cache)
    throw MissingCache(fmt::format("no token cache {}", path.string()),
                       fmt::format("build it: wmtp data tokenize {}", request.file.string()));
  const BuildLock lock(path, cache.run_name);
  if (!current()) log_cache_report(request.file, build_cache(request, path));
  return TokenCache::open(path);
}

void log_cache_report(const std::filesystem::path& file, const CacheReport& report) {
  const CacheFacts& facts = report.facts;
  log::info("data",
            "{}: {} rows, {} tokens in {:.1f} s ({:.1f} MB/s), {} tokens across the prompt's "
            "border -> {}",
            file.string(), facts.num_rows, facts.num_tokens, report.seconds,
            static_cast<double>(report.source_bytes) / 1e6 / std::max(report.seconds, 1e-9),
            facts.boundary_merges, report.path.string());
  if (facts.num_empty_documents > 0)
    log::info("data", "{}: {} empty documents skipped", file.string(), facts.num_empty_documents);
  if (facts.split_documents > 0)
    log::info("data", "{}: {} cuts in documents longer than dataset.max_line_bytes", file.string(),
              facts.split_documents);
}

}  // namespace wmtp::data

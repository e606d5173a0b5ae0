#include "wmtp/data/index/index_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <numeric>
#include <string>
#include <unordered_map>

#include "wmtp/core/log.h"
#include "wmtp/core/time.h"
#include "wmtp/data/index/foreign_rows.h"
#include "wmtp/data/index/index_rows.h"
#include "wmtp/data/index/line_chunks.h"
#include "wmtp/data/index/metadata_json.h"
#include "wmtp/data/index/source_file.h"
#include "wmtp/data/ordered_parallel.h"
#include "wmtp/data/progress.h"
#include "wmtp/data/sections/section_file.h"

namespace wmtp::data {
namespace {

class IndexWriter {
 public:
  explicit IndexWriter(const IndexRequest& request)
      : request_(request), bad_(request.file.string(), request.bad_lines) {
    const std::filesystem::path folder = request.index.parent_path();
    for (int i = 0; i < 9; ++i) spools_.emplace_back(folder.empty() ? "." : folder);
    if (request.metadata) metadata_ = read_metadata_json(*request.metadata);
  }

  void add(ChunkRows chunk) {
    if (metadata_) override_rows(chunk);
    std::vector<std::uint32_t> global(chunk.problems.size());
    for (std::size_t i = 0; i < global.size(); ++i) global[i] = number_of(chunk.problems[i]);
    for (std::size_t i = 0; i < chunk.flags.size(); ++i) {
      if (chunk.flags[i] & kRowBlank) ++facts_.num_blank;
      if (!(chunk.flags[i] & (kRowBlank | kRowBad | kRowHasReward))) ++facts_.num_without_reward;
      if (chunk.problem[i] == kNoProblem) continue;
      chunk.problem[i] = global[chunk.problem[i]];
      note_difficulty(chunk.problem[i], chunk.difficulty[i]);
    }
    spools_[0].append_values(std::span<const std::uint64_t>(chunk.line_offset));
    spools_[1].append_values(std::span<const std::uint32_t>(chunk.line_bytes));
    spools_[2].append_values(std::span<const std::uint32_t>(chunk.problem));
    spools_[3].append_values(std::span<const std::int16_t>(chunk.difficulty));
    spools_[4].append_values(std::span<const std::uint8_t>(chunk.flags));
    spools_[5].append_values(std::span<const float>(chunk.reward));
    spools_[6].append_values(std::span<const std::uint32_t>(chunk.output_tokens));
    for (BadLine& bad : chunk.bad) {
      bad.row += facts_.num_rows;
      bad_.add(std::move(bad));
    }
    facts_.num_rows += chunk.flags.size();
    facts_.suffix_contradictions += chunk.suffix_contradictions;
    for (const auto& [key, count] : chunk.ignored_keys) ignored_keys_[key] += count;
    if (bad_.hopeless()) bad_.judge(facts_.num_rows);
  }

  IndexReport finish(const FileStamp& stamp, const Sha256Digest& fingerprint) {
    check_total();
    bad_.judge(facts_.num_rows);
    sort_problems();
    fill_facts(stamp, fingerprint);
    SectionFileContent content;
    content.format = index_format();
    content.facts = std::as_bytes(std::span(&facts_, 1));
    content.failpoints = "index";
    for (SectionSpool& spool : spools_) content.sections.push_back(&spool);
    write_section_file(request_.index, content);
    return report();
  }

 private:
  std::uint32_t number_of(const std::string& name) {
    const auto [entry, fresh] =
        numbers_.try_emplace(name, static_cast<std::uint32_t>(difficulties_.size()));
    if (fresh) difficulties_.push_back(kNoDifficulty);
    return entry->second;
  }

  void note_difficulty(std::uint32_t problem, std::int16_t difficulty) {
    if (difficulty == kNoDifficulty) return;
    if (difficulties_[problem] == kNoDifficulty)
      difficulties_[problem] = difficulty;
    else if (difficulties_[problem] != difficulty)
      ++facts_.difficulty_disagreements;
  }

  void override_rows(ChunkRows& chunk) {
    for (std::size_t i = 0; i < chunk.flags.size(); ++i) {
      const std::uint64_t row = facts_.num_rows + i;
      if (row >= metadata_->rows.size() || (chunk.flags[i] & (kRowBlank | kRowBad))) continue;
      const MetadataRow& given = metadata_->rows[row];
      if (given.reward) {
        chunk.reward[i] = *given.reward;
        chunk.flags[i] =
            static_cast<std::uint8_t>(kRowHasReward | (*given.reward >= 0.5f ? kRowCorrect : 0));
      }
      if (given.difficulty) chunk.difficulty[i] = *given.difficulty;
      if (!given.problem.empty()) chunk.problem[i] = chunk.number_of(given.problem);
      if (given.output_tokens) chunk.output_tokens[i] = *given.output_tokens;
    }
  }

  void check_total() const {
    if (metadata_ && metadata_->total != facts_.num_rows)
      throw Error(
          ErrorKind::data, "data",
          fmt::format("{}: stats.total is {}, but {} has {} lines", request_.metadata->string(),
                      metadata_->total, request_.file.string(), facts_.num_rows),
          "is it the metadata of another file?");
    if (facts_.num_rows == facts_.num_blank + bad_.total())
      throw Error(ErrorKind::data, "data",
                  fmt::format("{} has no rows ({} blank and {} bad lines)", request_.file.string(),
                              facts_.num_blank, bad_.total()));
    if (facts_.num_rows >= kNoProblem)
      throw Error(ErrorKind::config, "data",
                  fmt::format("{} lines in one file, the limit is 2^32 - 2", facts_.num_rows),
                  "split the file");
  }

  // Numbers in the spool are in order of first sight; the file has them in bytewise order.
  void sort_problems() {
    std::vector<const std::pair<const std::string, std::uint32_t>*> entries;
    for (const auto& entry : numbers_) entries.push_back(&entry);
    std::sort(entries.begin(), entries.end(), [](auto* a, auto* b) { return a->first < b->first; });
    std::vector<std::uint32_t> sorted_number(entries.size());
    std::uint64_t end = 0;
    for (std::uint32_t i = 0; i < entries.size(); ++i) {
      sorted_number[entries[i]->second] = i;
      end += entries[i]->first.size();
      spools_[7].append_values(std::span<const std::uint64_t>(&end, 1));
      spools_[8].append_values(std::span<const char>(entries[i]->first));
    }
    facts_.num_problems = entries.size();
    const std::filesystem::path folder = request_.index.parent_path();
    SectionSpool renumbered(folder.empty() ? "." : folder);
    std::vector<std::uint32_t> part(std::size_t{1} << 18);
    for (std::uint64_t row = 0; row < facts_.num_rows; row += part.size()) {
      part.resize(std::min<std::uint64_t>(part.size(), facts_.num_rows - row));
      spools_[2].read(row * 4, std::as_writable_bytes(std::span(part)));
      for (std::uint32_t& number : part)
        if (number != kNoProblem) number = sorted_number[number];
      renumbered.append_values(std::span<const std::uint32_t>(part));
    }
    spools_[2] = std::move(renumbered);
  }

  void fill_facts(const FileStamp& stamp, const Sha256Digest& fingerprint) {
    facts_.source_bytes = stamp.bytes;
    facts_.source_mtime_ns = stamp.mtime_ns;
    std::copy(fingerprint.begin(), fingerprint.end(), facts_.data_fingerprint);
    if (request_.tokenizer) {
      const Sha256Digest digest = sha256(request_.tokenizer->fingerprint());
      std::copy(digest.begin(), digest.end(), facts_.tokenizer_fingerprint);
    } else if (metadata_ && metadata_->has_token_lengths) {
      std::copy_n(metadata_->fingerprint.begin(), 32, facts_.tokenizer_fingerprint);
    }
    if (metadata_) std::copy_n(metadata_->fingerprint.begin(), 32, facts_.metadata_fingerprint);
    facts_.policy_skip = request_.bad_lines.on_bad_line == OnBadLine::skip;
    facts_.policy_max_bad_fraction = request_.bad_lines.max_bad_fraction;
    facts_.policy_max_bad_lines = request_.bad_lines.max_bad_lines;
    facts_.policy_max_line_bytes = request_.bad_lines.max_line_bytes;
    std::copy(bad_.counts().begin(), bad_.counts().end(), facts_.bad_counts);
  }

  IndexReport report() const {
    IndexReport report;
    report.num_rows = facts_.num_rows;
    report.num_blank = facts_.num_blank;
    report.num_problems = facts_.num_problems;
    report.source_bytes = facts_.source_bytes;
    report.suffix_contradictions = facts_.suffix_contradictions;
    report.difficulty_disagreements = facts_.difficulty_disagreements;
    report.bad_counts = bad_.counts();
    report.first_bad = bad_.first();
    report.ignored_keys = ignored_keys_;
    return report;
  }

  const IndexRequest& request_;
  BadLineLog bad_;
  std::vector<SectionSpool> spools_;
  std::optional<ForeignMetadata> metadata_;
  std::unordered_map<std::string, std::uint32_t> numbers_;
  std::vector<std::int16_t> difficulties_;
  KeyCounts ignored_keys_;
  IndexFacts facts_{};
};

}  // namespace

IndexReport build_index(const IndexRequest& request) {
  const auto start = Clock::now();
  const FileStamp stamp = stamp_of(request.file);
  refuse_other_formats(request.file);
  auto fingerprint = std::async(std::launch::async, [&] { return fingerprint_file(request.file); });
  LineChunkSource source(request.file, request.bad_lines.max_line_bytes);
  IndexWriter writer(request);
  Progress progress("indexing", request.file, source.file_bytes());
  ordered_parallel<LineChunk>(
      request.num_threads, [&](LineChunk& chunk) { return source.next(chunk); },
      [&](const LineChunk& chunk) {
        return read_index_rows(chunk, request.bad_lines.max_line_bytes, request.tokenizer);
      },
      [&](ChunkRows rows) {
        const std::uint64_t end = rows.end_offset;
        progress.advance(end, rows.flags.size());
        writer.add(std::move(rows));
        source.done_until(end);
      });
  IndexReport report = writer.finish(stamp, fingerprint.get());
  report.seconds = seconds_since(start);
  return report;
}

bool index_is_current(const IndexRequest& request, bool may_hash) {
  const auto bytes = SectionFile::peek_facts(request.index, index_format());
  if (bytes.empty()) return false;
  IndexFacts facts;
  std::memcpy(&facts, bytes.data(), sizeof(facts));
  const BadLinePolicy policy{facts.policy_skip ? OnBadLine::skip : OnBadLine::stop,
                             facts.policy_max_bad_fraction, facts.policy_max_bad_lines,
                             facts.policy_max_line_bytes};
  if (policy != request.bad_lines) return false;
  const auto same = [](const std::uint8_t* stored, const Sha256Digest& wanted) {
    return std::equal(wanted.begin(), wanted.end(), stored);
  };
  if (request.tokenizer &&
      !same(facts.tokenizer_fingerprint, sha256(request.tokenizer->fingerprint())))
    return false;
  if (!same(facts.metadata_fingerprint,
            request.metadata ? fingerprint_file(*request.metadata) : Sha256Digest{}))
    return false;
  const FileStamp stamp = stamp_of(request.file);
  if (stamp.bytes != facts.source_bytes) return false;
  return stamp.mtime_ns == facts.source_mtime_ns ||
         (may_hash && same(facts.data_fingerprint, fingerprint_file(request.file)));
}

RowIndex open_or_build_index(const IndexRequest& request, const CacheOptions& cache) {
  if (!cache.force && index_is_current(request, !cache.look_only))
    return RowIndex::open(request.index);
  if (!cache.auto_cache)
    throw MissingCache(
        fmt::format("{}: no current index of {}", request.index.string(), request.file.string()),
        fmt::format("build it: wmtp data index {}", request.file.string()));
  const BuildLock lock(request.index, cache.run_name);
  if (cache.force || !index_is_current(request))
    log_index_report(request.file, build_index(request));
  return RowIndex::open(request.index);
}

void log_index_report(const std::filesystem::path& file, const IndexReport& report) {
  const std::uint64_t bad =
      std::accumulate(report.bad_counts.begin(), report.bad_counts.end(), std::uint64_t{0});
  log::info("data", "{}: {} lines ({} blank, {} bad), {} problems, {:.1f} MB/s", file.string(),
            report.num_rows, report.num_blank, bad, report.num_problems,
            static_cast<double>(report.source_bytes) / 1e6 / std::max(report.seconds, 1e-9));
  for (const BadLine& line : report.first_bad)
    log::warn("data", "skipped {}", format_bad_line(file.string(), line));
  if (!report.ignored_keys.empty()) {
    std::string names;
    for (const auto& [key, count] : report.ignored_keys)
      names += fmt::format("{}\"{}\" ({})", names.empty() ? "" : ", ", key, count);
    log::info("data", "{}: keys that nothing reads: {}", file.string(), names);
  }
  if (report.suffix_contradictions > 0)
    log::warn("data", "{}: {} rows whose task_id contradicts is_correct; the field wins",
              file.string(), report.suffix_contradictions);
  if (report.difficulty_disagreements > 0)
    log::warn("data", "{}: {} rows disagree with their problem's difficulty; its first row's holds",
              file.string(), report.difficulty_disagreements);
}

}  // namespace wmtp::data

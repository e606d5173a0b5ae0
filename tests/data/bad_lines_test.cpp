// Lines that are no rows: every kind is named with its place, skipped within bounds, and crashes
// nothing.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "data/jsonl_rows.h"
#include "support/expect_error.h"
#include "wmtp/core/rng.h"
#include "wmtp/core/utf8.h"
#include "wmtp/data/index/json_scan.h"

namespace wmtp::data {
namespace {

using test::index_text;
using test::kGood;
using test::parse;
using test::row_text;
using wmtp::test::TempDir;
using wmtp::test::write_file;

struct BadCase {
  std::string line;
  BadCause cause;
  std::size_t column;
  std::string text;
};

std::vector<BadCase> bad_cases() {
  const std::string deep(65, '['), deep_ok = std::string(63, '[') + std::string(63, ']');
  return {
      {R"({"instruction": "a", "output": 7})", BadCause::schema, 32,
       "\"output\" is a number, expected a string"},
      {R"({"instruction": "a"})", BadCause::schema, 1, "\"output\" is missing"},
      {R"({"output": "a"})", BadCause::schema, 1, "\"instruction\" is missing"},
      {R"({"instruction": " \n", "output": ""})", BadCause::schema, 17, "blank"},
      {R"({"instruction": "a", "output": "b", "is_correct": 1.5})", BadCause::schema, 51,
       "expected 0..1"},
      {R"({"instruction": "a", "output": "b", "is_correct": "yes"})", BadCause::schema, 51,
       "boolean or a number"},
      {R"({"instruction": "a", "output": "b", "metadata": []})", BadCause::schema, 49,
       "expected an object"},
      {R"({"instruction": "a", "output": "b", "metadata": {"difficulty": 1.5}})", BadCause::schema,
       64, "expected an integer"},
      {R"({"instruction": "a", "output": "b", "metadata": {"difficulty": 99999}})",
       BadCause::schema, 64, "32767"},
      {R"({"instruction": "a", "output": "b", "task_id": null})", BadCause::schema, 48,
       "\"task_id\" is null"},
      {R"({"instruction": "a", "output": "b", "output": "c"})", BadCause::duplicate_key, 37,
       "duplicate key"},
      {R"({"instruction": "a", "output": "b", "m": {"x": 1, "x": 2}})", BadCause::duplicate_key, 51,
       "duplicate key"},
      {R"({"instruction": "a", "output": "b", "n": 18446744073709551616})", BadCause::integer_range,
       42, "64 bits"},
      {R"({"instruction": "a", "output": "b", "n": 1e999})", BadCause::invalid_json, 42,
       "too large"},
      {R"({"instruction": "a", "output": "b", "n": -1e999})", BadCause::invalid_json, 42,
       "too large"},
      {R"({"instruction": "a", "output": "b", "n": 1e99999})", BadCause::invalid_json, 42,
       "too large"},
      {R"({"n": 1e-99999, "instruction": 1, "output": "b"})", BadCause::schema, 32,
       "expected a string"},
      {R"({"m": [], "instruction": 1, "output": "b"})", BadCause::schema, 26, "expected a string"},
      {R"({"instruction": "a", "output": {} "b": 1})", BadCause::invalid_json, 35, "','"},
      {R"({"instruction": "a", "output": "b", "n": 01})", BadCause::invalid_json, 42,
       "leading zero"},
      {R"({"instruction": "a", "output": "b",})", BadCause::invalid_json, 36, "a key"},
      {R"({"instruction": "a" "output": "b"})", BadCause::invalid_json, 21, "','"},
      {R"({"instruction": "\ud800", "output": "b"})", BadCause::invalid_json, 18, "surrogate"},
      {R"({"instruction": "\q", "output": "b"})", BadCause::invalid_json, 18, "escape"},
      {"{\"instruction\": \"a\tb\", \"output\": \"b\"}", BadCause::invalid_json, 19, "control"},
      {"{\"instruction\": \"\xC0\xAF\", \"output\": \"b\"}", BadCause::invalid_utf8, 18, "UTF-8"},
      {"{\"instruction\": \"\xED\xA0\x80\", \"output\": \"b\"}", BadCause::invalid_utf8, 18,
       "UTF-8"},
      {R"({"instruction": "a\u0000", "output": "b"})", BadCause::nul, 17, "NUL"},
      {std::string("{\"instruction\": \"a\0\", \"output\": \"b\"}", 36), BadCause::nul, 19, "NUL"},
      {R"(["instruction"])", BadCause::not_an_object, 1, "expected an object"},
      {"7", BadCause::not_an_object, 1, "expected an object"},
      {R"({"instruction": "a", "output": "b", "m": )" + deep + "}", BadCause::too_deep, 41 + 64,
       "deeper than 64"},
      {R"({"instruction": "a", "output": "b"} x)", BadCause::invalid_json, 37, "after the end"},
  };
}

TEST(BadLines, EveryKindFirstMiddleLast) {
  for (const BadCase& item : bad_cases())
    for (int place = 0; place < 3; ++place) {
      SCOPED_TRACE(item.line.substr(0, 80) + " at " + std::to_string(place));
      TempDir dir;
      std::string text;
      for (int i = 0; i < 3; ++i) text += (i == place ? item.line : kGood) + "\n";
      const std::string where =
          "train.jsonl:" + std::to_string(place + 1) + ":" + std::to_string(item.column) + ": ";
      EXPECT_WMTP_ERROR(index_text(dir, text), ErrorKind::data, where);
      EXPECT_WMTP_ERROR(index_text(dir, text), ErrorKind::data, item.text);
      EXPECT_FALSE(std::filesystem::exists(dir / "train.widx"));
      const IndexReport report = index_text(dir, text, {OnBadLine::skip, 0.5, 10});
      EXPECT_EQ(report.bad_counts[static_cast<std::size_t>(item.cause)], 1u);
      const RowIndex index = RowIndex::open(dir / "train.widx");
      for (std::uint32_t i = 0; i < 3; ++i)
        EXPECT_EQ((index.flags()[i] & kRowBad) != 0, static_cast<int>(i) == place);
    }
}

TEST(BadLines, DepthLimitIsExact) {
  Row row;
  const auto nested = [](int depth) {
    return R"({"instruction": "a", "output": "b", "m": )" + std::string(depth, '[') +
           std::string(depth, ']') + "}";
  };
  EXPECT_FALSE(parse(nested(63), row));
  for (int depth : {64, 65, 1000000}) {
    const auto bad = parse(nested(depth), row);
    ASSERT_TRUE(bad) << depth;
    EXPECT_EQ(bad->cause, BadCause::too_deep);
  }
}

TEST(BadLines, CutLastLineIsNamed) {
  TempDir dir;
  const std::string text = std::string(kGood) + "\n" + std::string(kGood).substr(0, 30);
  const IndexReport report = index_text(dir, text, {OnBadLine::skip, 0.5, 10});
  EXPECT_EQ(report.bad_counts[static_cast<std::size_t>(BadCause::cut_line)], 1u);
}

TEST(BadLines, SkipIsBounded) {
  TempDir dir;
  std::string text;
  for (int i = 0; i < 1000; ++i) text += i % 100 == 5 ? "oops\n" : std::string(kGood) + "\n";
  EXPECT_WMTP_ERROR(index_text(dir, text, {OnBadLine::skip, 0.001, 1000}), ErrorKind::data,
                    "max_bad_fraction");
  EXPECT_WMTP_ERROR(index_text(dir, text, {OnBadLine::skip, 0.5, 9}), ErrorKind::data,
                    "max_bad_lines");
  EXPECT_EQ(index_text(dir, text, {OnBadLine::skip, 0.01, 10}).num_rows, 1000u);
}

TEST(BadLines, ByteOrderMarkCrlfBlankLinesAndNoLastLineFeedAreFine) {
  TempDir dir;
  const IndexReport report = index_text(
      dir, "\xEF\xBB\xBF" + std::string(kGood) + "\r\n\r\n  \n" + row_text(1) + "\n" + row_text(2));
  EXPECT_EQ(report.num_rows, 5u);
  EXPECT_EQ(report.num_blank, 2u);
  const RowIndex index = RowIndex::open(dir / "train.widx");
  EXPECT_EQ(index.line_offset()[0], 3u);
  EXPECT_EQ(index.line_bytes()[0], std::string(kGood).size());
}

TEST(BadLines, EmptyFilesAndFilesWithoutRowsAreErrors) {
  TempDir dir;
  EXPECT_WMTP_ERROR(index_text(dir, ""), ErrorKind::data, "has no rows");
  EXPECT_WMTP_ERROR(index_text(dir, "\n \n"), ErrorKind::data, "2 blank");
}

TEST(BadLines, LongLinesFailInBoundedMemory) {
  TempDir dir;
  const std::string text = std::string(kGood) + "\n" + std::string(5000, 'x') + "\n" + kGood + "\n";
  BadLinePolicy policy{OnBadLine::skip, 0.5, 10, 1000};
  EXPECT_EQ(index_text(dir, text, policy).bad_counts[static_cast<std::size_t>(BadCause::too_long)],
            1u);
  // A sparse line of 1 GiB: it must be passed over without being held.
  std::ofstream(dir / "huge.jsonl") << kGood << "\n";
  std::filesystem::resize_file(dir / "huge.jsonl", std::uintmax_t{1} << 30);
  IndexRequest request;
  request.file = dir / "huge.jsonl";
  request.index = dir / "huge.widx";
  EXPECT_WMTP_ERROR(build_index(request), ErrorKind::data,
                    "huge.jsonl:2:1: the line has 1073741770 bytes");
}

// simdjson decides, the slow scanner explains: they must agree on what is bad.
TEST(BadLines, RandomMutationsNeverCrashAndBothReadersAgree) {
  RngStream rng(7, "mutations");
  const std::string alphabet = "{}[]\",:\\u0123eE.+- \n\t\xC3\xFF\x80ntf";
  int bad = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text = row_text(static_cast<int>(rng.below(50)));
    for (std::uint64_t edits = 1 + rng.below(3); edits > 0; --edits) {
      const std::size_t at = rng.below(text.size());
      switch (rng.below(4)) {
        case 0:
          text[at] = alphabet[rng.below(alphabet.size())];
          break;
        case 1:
          text.erase(at, 1 + rng.below(5));
          break;
        case 2:
          text.insert(at, 1, static_cast<char>(rng.below(256)));
          break;
        default:
          text.resize(at);
          break;
      }
      if (text.empty()) text = "{";
    }
    std::erase(text, '\n');
    Row row;
    const auto fast = parse(text, row);
    const auto slow = scan_json(text).bad;
    if (is_blank(text)) continue;
    bad += fast.has_value();
    if (slow) {
      EXPECT_TRUE(fast) << text;
    } else if (fast) {
      EXPECT_TRUE(fast->cause == BadCause::schema || fast->cause == BadCause::nul ||
                  fast->cause == BadCause::not_an_object)
          << text << fast->text;
    }
  }
  EXPECT_GT(bad, 500);
}

TEST(BadLines, MutatedFilesEndInAnErrorOrAnIndex) {
  TempDir dir;
  std::string original;
  for (int i = 0; i < 20; ++i) original += row_text(i) + "\n";
  RngStream rng(8, "files");
  for (int round = 0; round < 1000; ++round) {
    std::string text = original;
    for (int edits = 0; edits < 4; ++edits) {
      const std::size_t at = rng.below(text.size());
      if (rng.below(2) == 0)
        text[at] = static_cast<char>(rng.below(256));
      else
        text.erase(at, rng.below(200));
    }
    write_file(dir / "m.jsonl", text);
    IndexRequest request;
    request.file = dir / "m.jsonl";
    request.index = dir / "m.widx";
    // Every twentieth is written in the end; a write waits for the disk.
    request.bad_lines = {round % 20 == 0 ? OnBadLine::skip : OnBadLine::stop, 0.5, 1000, 1000};
    try {
      build_index(request);
      RowIndex::open(request.index);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::data) << error.what();
    }
  }
}

TEST(Utf8, MatchesTheTableOfAllPairsOfBytes) {
  for (unsigned a = 0; a < 256; ++a)
    for (unsigned b = 0; b < 256; ++b) {
      const std::string text{static_cast<char>(a), static_cast<char>(b)};
      const bool valid = (a < 0x80 && b < 0x80) || (a >= 0xC2 && a <= 0xDF && (b & 0xC0) == 0x80);
      EXPECT_EQ(!find_invalid_utf8(text), valid) << a << " " << b;
    }
}

}  // namespace
}  // namespace wmtp::data

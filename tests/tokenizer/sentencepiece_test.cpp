#include "wmtp/tokenizer/sentencepiece/sentencepiece.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>

#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace wmtp::tokenizer {
namespace {

using Ids = std::vector<TokenId>;

std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
  return out;
}

std::string field(int number, const std::string& bytes) {
  return varint(static_cast<std::uint64_t>(number) << 3 | 2) + varint(bytes.size()) + bytes;
}

std::string number_field(int number, std::uint64_t value) {
  return varint(static_cast<std::uint64_t>(number) << 3) + varint(value);
}

std::string piece(const std::string& text, float score, int type) {
  std::string bytes = field(1, text) + varint(2 << 3 | 5);
  const auto bits = std::bit_cast<std::uint32_t>(score);
  for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<char>(bits >> 8 * i));
  return field(1, bytes + number_field(3, static_cast<std::uint64_t>(type)));
}

const std::string kSpace = "\u2581";

std::string tiny_pieces() {
  return piece("<unk>", 0, 2) + piece("<s>", 0, 3) + piece("</s>", 0, 3) +
         piece(kSpace + "ab", -1, 1) + piece("ab", -2, 1) + piece(kSpace, -3, 1) +
         piece("a", -4, 1) + piece("b", -5, 1) + piece("<t>", 0, 4);
}
const std::string kBpe = field(2, number_field(3, 2));

std::shared_ptr<const Tokenizer> load_model(const std::string& bytes) {
  const test::TempDir folder;
  test::write_file(folder / "tokenizer.model", bytes);
  return load_tokenizer(folder.path());
}

TEST(SentencePiece, MergesByScoreAndKeepsUserDefinedPiecesWhole) {
  const auto tokenizer = load_model(tiny_pieces() + kBpe);
  EXPECT_EQ(tokenizer->encode("ab ab"), (Ids{3, 3}));
  EXPECT_EQ(tokenizer->encode(" a<t>b "), (Ids{5, 6, 8, 7}));
  EXPECT_EQ(tokenizer->encode("a<s>xyz"), (Ids{5, 6, 0}))
      << "control pieces are text; unknowns are fused";
  EXPECT_EQ(tokenizer->encode("ab", {.add_special = true}), (Ids{1, 3}));
  EXPECT_EQ(tokenizer->decode(Ids{1, 3, 3, 2}, true), "ab ab");
  EXPECT_EQ(tokenizer->bos_id(), 1);
  EXPECT_EQ(tokenizer->eos_id(), 2);
}

TEST(SentencePiece, TokenizerConfigCanSwitchBosOff) {
  const test::TempDir folder;
  test::write_file(folder / "tokenizer.model", tiny_pieces() + kBpe);
  test::write_file(folder / "tokenizer_config.json",
                   R"({"add_bos_token": false, "add_eos_token": true})");
  const auto tokenizer = load_tokenizer(folder.path());
  EXPECT_FALSE(tokenizer->adds_bos());
  EXPECT_EQ(tokenizer->encode("ab", {.add_special = true}), (Ids{3, 2}));
}

TEST(SentencePiece, HostileBytesAreRefusedByName) {
  const auto refused = [](const std::string& bytes, const char* part) {
    EXPECT_WMTP_ERROR(load_model(bytes), ErrorKind::data, part);
  };
  const std::string good = tiny_pieces() + kBpe;
  refused("", "no pieces");
  refused(good + std::string(11, '\xFF'), "more than 10 bytes");
  refused(good + std::string(9, '\xFF') + "\x02", "exceeds 64 bits");
  refused(good + "\x80", "cut off");
  refused(good + std::string("\x0B"), "group");
  refused(good + std::string("\x0E"), "wire type 6");
  refused(good + std::string("\x00", 1) + "a", "field number 0");
  refused(good + "\x0A" + varint(std::uint64_t{1} << 62), "beyond the end");
  refused(good + number_field(1, 3), "wire type 0, not 2");
  refused(good + piece("", 0, 1), "empty piece");
  refused(good + piece("x", 0, 9), "unknown piece type 9");
  refused(good + piece("x", std::numeric_limits<float>::quiet_NaN(), 1), "not finite");
  refused(good + piece("\xFF", 0, 1), "not UTF-8");
  refused(good + piece(std::string(5000, 'x'), 0, 1), "5000 bytes");
  refused(good + piece("a", 0, 1), "'a' is there twice");
  refused(good + piece("<unk2>", 0, 2), "2 pieces of type UNKNOWN");
  refused(good + piece("<0xZZ>", 0, 6), "'<0xZZ>'");
  refused(tiny_pieces() + field(2, number_field(3, 2) + number_field(35, 1)),
          "not all 256 byte pieces");
  EXPECT_WMTP_ERROR(load_model(tiny_pieces()), ErrorKind::config, "UNIGRAM");
  EXPECT_WMTP_ERROR(load_model(tiny_pieces() + field(2, number_field(3, 4))), ErrorKind::config,
                    "CHAR");
  EXPECT_WMTP_ERROR(load_model(good + field(3, field(2, "abc"))), ErrorKind::config,
                    "precompiled_charsmap of 3 bytes");
}

TEST(SentencePiece, EveryTruncationIsAnErrorOrAWholeModel) {
  const std::string good = tiny_pieces() + kBpe;
  for (std::size_t cut = 0; cut < good.size(); ++cut)
    EXPECT_THROW(load_model(good.substr(0, cut)), Error) << cut;
  EXPECT_NO_THROW(load_model(good));
}

}  // namespace
}  // namespace wmtp::tokenizer

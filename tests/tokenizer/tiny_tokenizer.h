// Tokenizer files small enough to read, made in the test.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "support/temp_dir.h"
#include "wmtp/tokenizer/bpe/byte_level.h"
#include "wmtp/tokenizer/text/split_scanner.h"
#include "wmtp/tokenizer/text/unicode.h"
#include "wmtp/tokenizer/tokenizer.h"

namespace wmtp::tokenizer {

inline nlohmann::json added_token(int id, const std::string& content, bool special) {
  return {{"id", id},        {"content", content},     {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", !special}, {"special", special}};
}

// Byte-level BPE with the Qwen split: ids 0..255 are the bytes in the order of the alphabet, then
// merges h+e, l+l, he+ll, hell+o, then <|im_start|>, <|im_end|> (special) and <tool>.
inline nlohmann::json tiny_byte_level() {
  nlohmann::json vocab = nlohmann::json::object();
  for (int byte = 0; byte < 256; ++byte) {
    std::string token;
    append_utf8(byte_level_alphabet()[static_cast<std::size_t>(byte)], token);
    vocab[token] = byte;
  }
  nlohmann::json merges = nlohmann::json::array();
  for (const auto& [left, right] : std::vector<std::pair<std::string, std::string>>{
           {"h", "e"}, {"l", "l"}, {"he", "ll"}, {"hell", "o"}}) {
    vocab[left + right] = 256 + merges.size();
    merges.push_back(left + " " + right);
  }
  const nlohmann::json split{{"type", "Split"},
                             {"pattern", {{"Regex", regex_of(KnownPattern::qwen)}}},
                             {"behavior", "Isolated"},
                             {"invert", false}};
  const nlohmann::json bytes{{"type", "ByteLevel"},
                             {"add_prefix_space", false},
                             {"trim_offsets", true},
                             {"use_regex", false}};
  return {{"version", "1.0"},
          {"added_tokens",
           {added_token(260, "<|im_start|>", true), added_token(261, "<|im_end|>", true),
            added_token(262, "<tool>", false)}},
          {"normalizer", {{"type", "NFC"}}},
          {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {split, bytes}}}},
          {"post_processor", nullptr},
          {"decoder", bytes},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", merges}}}};
}

inline std::shared_ptr<const Tokenizer> load_json(const nlohmann::json& json) {
  const test::TempDir folder;
  test::write_file(folder / "tokenizer.json", json.dump());
  return load_tokenizer(folder.path());
}

}  // namespace wmtp::tokenizer

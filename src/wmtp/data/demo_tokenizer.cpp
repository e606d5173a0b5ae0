// A small byte-level BPE trainer: enough for the demo corpus, in the file format of Hugging Face
// tokenizers.
#include <algorithm>
#include <array>
#include <map>

#include "wmtp/core/error.h"
#include "wmtp/core/json.h"
#include "wmtp/data/demo_corpus.h"

namespace wmtp::data {
namespace {

constexpr std::array<const char*, 5> kSpecial{"<s>", "</s>", "<pad>", "<|im_start|>", "<|im_end|>"};

using Word = std::vector<std::string>;
using Pair = std::pair<std::string, std::string>;

// The printable stand-in of a byte in byte-level vocabularies: itself where it is printable,
// otherwise a character from U+0100 on.
std::string stand_in(unsigned byte) {
  const auto printable = [](unsigned b) {
    return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174 && b <= 255);
  };
  unsigned code = byte;
  if (!printable(byte)) {
    code = 256;
    for (unsigned b = 0; b < byte; ++b) code += !printable(b);
  }
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xC0 | (code >> 6)), static_cast<char>(0x80 | (code & 63))};
}

int kind_of(char c) {
  if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return 0;
  if (c >= '0' && c <= '9') return 1;
  return c == ' ' || c == '\n' || c == '\t' ? 3 : 2;
}

// Pieces that no merge crosses: a space with the letters, digits or signs behind it; runs of white
// space.
std::map<std::string, std::uint64_t> count_words(const std::string& text) {
  std::map<std::string, std::uint64_t> words;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = begin;
    const bool leading_space =
        text[begin] == ' ' && begin + 1 < text.size() && kind_of(text[begin + 1]) != 3;
    if (leading_space) ++end;
    const int kind = kind_of(text[end]);
    while (end < text.size() && kind_of(text[end]) == kind) ++end;
    // The last space of a run goes with the word behind it.
    if (kind == 3 && end < text.size() && end - begin > 1 && text[end - 1] == ' ') --end;
    ++words[text.substr(begin, end - begin)];
    begin = end;
  }
  return words;
}

void merge(Word& word, const Pair& pair) {
  Word merged;
  for (std::size_t i = 0; i < word.size(); ++i) {
    if (i + 1 < word.size() && word[i] == pair.first && word[i + 1] == pair.second) {
      merged.push_back(pair.first + pair.second);
      ++i;
    } else {
      merged.push_back(word[i]);
    }
  }
  word = std::move(merged);
}

std::vector<Pair> learn_merges(const std::string& text, std::size_t num_merges) {
  std::vector<std::pair<Word, std::uint64_t>> words;
  for (const auto& [word, count] : count_words(text)) {
    Word pieces;
    for (const char c : word) pieces.push_back(stand_in(static_cast<unsigned char>(c)));
    words.emplace_back(std::move(pieces), count);
  }
  std::vector<Pair> merges;
  while (merges.size() < num_merges) {
    std::map<Pair, std::uint64_t> counts;
    for (const auto& [word, count] : words)
      for (std::size_t i = 0; i + 1 < word.size(); ++i) counts[{word[i], word[i + 1]}] += count;
    if (counts.empty()) break;
    const auto best =
        std::max_element(counts.begin(), counts.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    merges.push_back(best->first);
    for (auto& [word, count] : words) merge(word, merges.back());
  }
  return merges;
}

OrderedJson post_processor() {
  const OrderedJson bos{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}};
  const OrderedJson a{{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
      b{{"Sequence", {{"id", "B"}, {"type_id", 1}}}};
  return {{"type", "TemplateProcessing"},
          {"single", OrderedJson::array({bos, a})},
          {"pair", OrderedJson::array({bos, a, b})},
          {"special_tokens",
           {{"<s>",
             {{"id", "<s>"},
              {"ids", OrderedJson::array({0})},
              {"tokens", OrderedJson::array({"<s>"})}}}}}};
}

}  // namespace

std::string train_demo_tokenizer(const std::string& text, std::size_t vocab_size) {
  WMTP_CHECK(vocab_size >= kSpecial.size() + 256, "vocabulary too small for the bytes");
  const auto merges = learn_merges(text, vocab_size - kSpecial.size() - 256);
  OrderedJson added = OrderedJson::array(), vocab = OrderedJson::object(),
              merge_list = OrderedJson::array();
  std::size_t id = 0;
  for (const char* token : kSpecial) {
    added.push_back({{"id", id},
                     {"content", token},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
    vocab[token] = id++;
  }
  for (unsigned byte = 0; byte < 256; ++byte) vocab[stand_in(byte)] = id++;
  for (const auto& [left, right] : merges) {
    if (!vocab.contains(left + right)) vocab[left + right] = id++;
    merge_list.push_back(OrderedJson::array({left, right}));
  }
  const OrderedJson byte_level{{"type", "ByteLevel"},
                               {"add_prefix_space", false},
                               {"trim_offsets", true},
                               {"use_regex", true}};
  const OrderedJson root{{"version", "1.0"},
                         {"truncation", nullptr},
                         {"padding", nullptr},
                         {"added_tokens", added},
                         {"normalizer", nullptr},
                         {"pre_tokenizer", byte_level},
                         {"post_processor", post_processor()},
                         {"decoder", byte_level},
                         {"model",
                          {{"type", "BPE"},
                           {"dropout", nullptr},
                           {"unk_token", nullptr},
                           {"continuing_subword_prefix", nullptr},
                           {"end_of_word_suffix", nullptr},
                           {"fuse_unk", false},
                           {"byte_fallback", false},
                           {"ignore_merges", false},
                           {"vocab", vocab},
                           {"merges", merge_list}}}};
  return root.dump(1) + "\n";
}

std::string demo_tokenizer_config() {
  const OrderedJson root{{"tokenizer_class", "PreTrainedTokenizerFast"},
                         {"bos_token", "<s>"},
                         {"eos_token", "</s>"},
                         {"pad_token", "<pad>"},
                         {"add_bos_token", true},
                         {"add_eos_token", false},
                         {"clean_up_tokenization_spaces", false},
                         {"model_max_length", 4096}};
  return root.dump(1) + "\n";
}

}  // namespace wmtp::data

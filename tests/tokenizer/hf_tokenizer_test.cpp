#include "wmtp/tokenizer/bpe/hf_tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "support/expect_error.h"
#include "tokenizer/tiny_tokenizer.h"
#include "wmtp/tokenizer/prompt_template.h"

namespace wmtp::tokenizer {
namespace {

using Ids = std::vector<TokenId>;

TEST(HfTokenizer, MergesByRankWithinThePiecesOfTheSplit) {
  const auto tokenizer = load_json(tiny_byte_level());
  EXPECT_EQ(tokenizer->encode("hello"), Ids{259});
  EXPECT_EQ(tokenizer->encode("hellhe"), (Ids{258, 256}));
  EXPECT_EQ(tokenizer->encode("he hello"), (Ids{256, ' ', 259}));
  EXPECT_EQ(tokenizer->encode(""), Ids{});
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("h\xC3\xA9 \n"), false), "h\xC3\xA9 \n");
}

TEST(HfTokenizer, SpecialTokensAreTextUnlessAllowed) {
  const auto tokenizer = load_json(tiny_byte_level());
  EXPECT_EQ(tokenizer->encode("<|im_end|>", {.allow_special = true}), Ids{261});
  const Ids plain = tokenizer->encode("<|im_end|>");
  EXPECT_EQ(plain.size(), 10u);
  EXPECT_EQ(tokenizer->decode(plain, true), "<|im_end|>");
  EXPECT_EQ(tokenizer->encode("<tool>"), Ids{262}) << "added, but not special: always matched";
}

TEST(HfTokenizer, ATemplateMatchesItsOwnTokensAndNoForgedOnes) {
  const auto tokenizer = load_json(tiny_byte_level());
  const Prompt prompt = render_prompt(PromptTemplate::chatml, "<|im_end|>", "");
  const Ids ids = tokenizer->encode(prompt.text, {.special_spans = prompt.special_spans});
  EXPECT_EQ(std::count(ids.begin(), ids.end(), 260), 2);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), 261), 1);
  EXPECT_EQ(tokenizer->decode(ids, false), prompt.text);
  EXPECT_EQ(end_of_response_id(PromptTemplate::chatml, *tokenizer), 261);
  EXPECT_WMTP_ERROR(end_of_response_id(PromptTemplate::alpaca, *tokenizer), ErrorKind::config,
                    "no EOS");
}

TEST(HfTokenizer, InvalidUtf8AndForeignIdsAreDataErrors) {
  const auto tokenizer = load_json(tiny_byte_level());
  EXPECT_WMTP_ERROR(tokenizer->encode("ab\xFF"), ErrorKind::data, "invalid UTF-8 at byte 2");
  const Ids foreign{1, 263};
  EXPECT_WMTP_ERROR(tokenizer->decode(foreign, false), ErrorKind::data,
                    "token id 263 is outside the vocabulary of 263");
  const Ids half{0xE4};
  EXPECT_EQ(tokenizer->decode(half, false), "\uFFFD");
}

TEST(HfTokenizer, TokenizerConfigNamesBosAndEosAndChangesTheFingerprint) {
  const test::TempDir folder;
  test::write_file(folder / "tokenizer.json", tiny_byte_level().dump());
  const auto plain = load_tokenizer(folder.path());
  EXPECT_EQ(plain->eos_id(), std::nullopt);
  test::write_file(folder / "tokenizer_config.json",
                   R"({"eos_token": {"content": "<|im_end|>"}, "bos_token": null})");
  const auto named = load_tokenizer(folder / "tokenizer.json");
  EXPECT_EQ(named->eos_id(), 261);
  EXPECT_EQ(named->fingerprint().size(), 64u);
  EXPECT_NE(named->fingerprint(), plain->fingerprint());
}

TEST(HfTokenizer, SeveralThreadsAndModelsAtOnce) {
  nlohmann::json other = tiny_byte_level();
  other["model"]["merges"] = nlohmann::json::array();
  const std::shared_ptr<const Tokenizer> tokenizers[] = {load_json(tiny_byte_level()),
                                                         load_json(other)};
  std::vector<std::thread> threads;
  std::atomic<int> num_wrong = 0;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        num_wrong += tokenizers[0]->encode("hello").size() != 1;
        num_wrong += tokenizers[1]->encode("hello").size() != 5;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(num_wrong, 0);
}

struct Refusal {
  const char* name;
  std::string pointer;  // JSON pointer to what is replaced
  nlohmann::json value;
  ErrorKind kind;
  const char* part;
};

class HfRefusal : public testing::TestWithParam<Refusal> {};

TEST_P(HfRefusal, IsByName) {
  nlohmann::json json = tiny_byte_level();
  json[nlohmann::json::json_pointer(GetParam().pointer)] = GetParam().value;
  EXPECT_WMTP_ERROR(load_json(json), GetParam().kind, GetParam().part);
}

const nlohmann::json kMergeTwice = {"h e", "h e x"};
INSTANTIATE_TEST_SUITE_P(
    Files, HfRefusal,
    testing::Values(
        Refusal{"Version", "/version", "2.0", ErrorKind::config, "version '2.0'"},
        Refusal{"Normalizer", "/normalizer/type", "Nmt", ErrorKind::config, "normalizer 'Nmt'"},
        Refusal{"PreTokenizer", "/pre_tokenizer/pretokenizers/1/type", "BertPreTokenizer",
                ErrorKind::config,
                "pre_tokenizer.pretokenizers[1] is the pre-tokenizer 'BertPreTokenizer'"},
        Refusal{"Decoder", "/decoder/type", "WordPiece", ErrorKind::config, "decoder 'WordPiece'"},
        Refusal{"PostProcessor",
                "/post_processor",
                {{"type", "BertProcessing"}},
                ErrorKind::config,
                "post-processor 'BertProcessing'"},
        Refusal{"Model", "/model/type", "Unigram", ErrorKind::config, "type 'Unigram'"},
        Refusal{"Dropout", "/model/dropout", 0.1, ErrorKind::config, "dropout 0.1"},
        Refusal{"Behavior", "/pre_tokenizer/pretokenizers/0/behavior", "Shuffled",
                ErrorKind::config, "'Shuffled'"},
        Refusal{"PatternFeature",
                "/pre_tokenizer/pretokenizers/0/pattern",
                {{"Regex", R"(\bfoo)"}},
                ErrorKind::config,
                R"('\b' at byte 0)"},
        Refusal{"PatternSyntax",
                "/pre_tokenizer/pretokenizers/0/pattern",
                {{"Regex", "(a"}},
                ErrorKind::data,
                "does not compile"},
        Refusal{"PatternSize",
                "/pre_tokenizer/pretokenizers/0/pattern",
                {{"Regex", std::string(20000, 'a')}},
                ErrorKind::data,
                "20000 bytes"},
        Refusal{"IdTwice", "/model/vocab/hello", 3, ErrorKind::data, "id 3 to two tokens"},
        Refusal{"IdNegative", "/model/vocab/hello", -1, ErrorKind::data, "the id -1"},
        Refusal{"IdTooLarge", "/model/vocab/hello", 2147483648LL, ErrorKind::data,
                "the id 2147483648"},
        Refusal{"IdText", "/model/vocab/hello", "7", ErrorKind::data, "not an integer"},
        Refusal{"TokenTooLong", "/model/vocab/" + std::string(5000, 'x'), 900, ErrorKind::data,
                "5000 bytes"},
        Refusal{"MergeShape", "/model/merges/0", {"h"}, ErrorKind::data, "merge 0"},
        Refusal{"MergeSpaces", "/model/merges", kMergeTwice, ErrorKind::data, "merge 1 ('h e x')"},
        Refusal{"MergeUnknown", "/model/merges/0", "h zz", ErrorKind::data, "'zz'"},
        Refusal{"UnkMissing", "/model/unk_token", "<unk>", ErrorKind::data, "unk_token '<unk>'"},
        Refusal{"NoVocab", "/model/vocab", nullptr, ErrorKind::data, "lacks 'vocab'"},
        Refusal{"AddedOutOfOrder", "/added_tokens/0/id", 261, ErrorKind::data,
                "the next free id is 260"},
        Refusal{"AddedAgainstVocab", "/added_tokens/0/content", "hello", ErrorKind::data,
                "the vocabulary says 259"},
        Refusal{"AddedTwice", "/added_tokens/1/content", "<|im_start|>", ErrorKind::data,
                "repeats the added token"},
        Refusal{"AddedEmpty", "/added_tokens/1/content", "", ErrorKind::data, "empty 'content'"},
        Refusal{"FlagType", "/added_tokens/1/special", 1, ErrorKind::data, "not true or false"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(HfRefusalOfBytes, TruncatedDeepAndWrongFiles) {
  const test::TempDir folder;
  const auto refused = [&](const std::string& bytes, std::string_view part) {
    test::write_file(folder / "tokenizer.json", bytes);
    EXPECT_WMTP_ERROR(load_tokenizer(folder.path()), ErrorKind::data, std::string(part));
  };
  const std::string good = tiny_byte_level().dump();
  for (std::size_t cut = 0; cut < good.size(); cut += 97)
    refused(good.substr(0, cut), "tokenizer.json");
  refused(std::string(100, '[') + std::string(100, ']'), "tokenizer.json");
  refused("[]", "is not an object");
  refused(R"({"model":{"type":"BPE","vocab":{"a":0,"a":1},"merges":[]}})", "tokenizer.json");
  EXPECT_WMTP_ERROR(load_tokenizer(folder / "nothing"), ErrorKind::config, "does not exist");
  test::write_file(folder / "x.bin", "");
  EXPECT_WMTP_ERROR(load_tokenizer(folder / "x.bin"), ErrorKind::config,
                    "neither a .json nor a .model");
}

}  // namespace
}  // namespace wmtp::tokenizer

#include <fmt/format.h>

#include <chrono>
#include <ctime>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>

#include "wmtp/cli/command.h"
#include "wmtp/cli/commands/named_tokenizer.h"
#include "wmtp/cli/standard_output.h"
#include "wmtp/core/error.h"
#include "wmtp/core/json.h"
#include "wmtp/tokenizer/text/unicode.h"
#include "wmtp/tokenizer/tokenizer.h"

namespace wmtp::cli {
namespace {

using tokenizer::TokenId;
using tokenizer::Tokenizer;

struct EncodeFlags {
  std::string tokenizer_path;
  std::vector<std::string> files;
  bool per_line = false, add_special = false, allow_special = false, pieces = false;
  int num_timed_repeats = 0;
};

struct DecodeFlags {
  std::string tokenizer_path;
  bool per_line = false, skip_special = false;
};

std::string json_string(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string read_whole(const std::string& name) {
  if (name == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
  std::ifstream in(name, std::ios::binary);
  if (!in) throw Error(ErrorKind::config, "tokenizer", fmt::format("cannot open {}", name));
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (in.bad()) throw Error(ErrorKind::io, "tokenizer", fmt::format("cannot read {}", name));
  return text;
}

void check_utf8(const std::string& name, std::string_view text) {
  const std::size_t valid = tokenizer::valid_utf8_prefix(text);
  if (valid != text.size())
    throw Error(ErrorKind::data, "tokenizer",
                fmt::format("{}: invalid UTF-8 at byte {}", name, valid),
                "text must be UTF-8; convert it first");
}

// Calls use(line number from 1, text) for each document of a file.
template <typename Use>
void for_each_document(std::string_view text, bool per_line, Use use) {
  if (!per_line) return use(1, text);
  for (std::int64_t line = 1; !text.empty(); ++line) {
    const std::size_t end = text.find('\n');
    use(line, text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
}

// Written by hand: a corpus has millions of lines.
class TokenLines {
 public:
  TokenLines(const Tokenizer& tokenizer, bool pieces) : tokenizer_(tokenizer), pieces_(pieces) {}

  void add(const std::string& quoted_file, std::int64_t line, const std::vector<TokenId>& ids) {
    text_.clear();
    fmt::format_to(std::back_inserter(text_), R"({{"type":"tokens","file":{},"line":{},"ids":[{}])",
                   quoted_file, line, fmt::join(ids, ","));
    if (pieces_) {
      text_ += R"(,"pieces":[)";
      for (std::size_t i = 0; i < ids.size(); ++i)
        (text_ += i ? "," : "") += json_string(tokenizer_.piece(ids[i]));
      text_ += ']';
    }
    std::cout << (text_ += "}\n");
  }

 private:
  const Tokenizer& tokenizer_;
  bool pieces_;
  std::string text_;
};

// Seconds of each pass over the documents, without reading, checking or printing anything twice:
// what bench/tokenizer.py compares with other tokenizers.
void time_encoding(const Tokenizer& tokenizer, const EncodeFlags& flags,
                   const tokenizer::EncodeOptions& options) {
  std::vector<std::string> texts;
  for (const std::string& name : flags.files) texts.push_back(read_whole(name));
  for (int repeat = 0; repeat < flags.num_timed_repeats; ++repeat) {
    std::int64_t num_tokens = 0, num_bytes = 0;
    const std::clock_t cpu_begin = std::clock();
    const auto begin = std::chrono::steady_clock::now();
    for (const std::string& text : texts) {
      num_bytes += static_cast<std::int64_t>(text.size());
      for_each_document(text, flags.per_line, [&](std::int64_t, std::string_view document) {
        num_tokens += static_cast<std::int64_t>(tokenizer.encode(document, options).size());
      });
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    const double cpu_seconds = static_cast<double>(std::clock() - cpu_begin) / CLOCKS_PER_SEC;
    emit_json("result",
              {{"seconds", seconds.count()},
               {"cpu_seconds", cpu_seconds},
               {"tokens", num_tokens},
               {"bytes", num_bytes}},
              false);
  }
}

int run_encode(const EncodeFlags& flags) {
  const std::shared_ptr<const Tokenizer> tokenizer = open_tokenizer(flags.tokenizer_path);
  const tokenizer::EncodeOptions options{.add_special = flags.add_special,
                                         .allow_special = flags.allow_special};
  if (flags.num_timed_repeats > 0) {
    time_encoding(*tokenizer, flags, options);
    return 0;
  }
  TokenLines lines(*tokenizer, flags.pieces);
  std::vector<TokenId> ids;
  for (const std::string& name : flags.files) {
    const std::string text = read_whole(name);
    check_utf8(name, text);
    const std::string quoted_name = json_string(name);
    for_each_document(text, flags.per_line, [&](std::int64_t line, std::string_view document) {
      ids.clear();
      tokenizer->encode(document, options, ids);
      lines.add(quoted_name, line, ids);
    });
  }
  return 0;
}

std::vector<TokenId> ids_of_line(const std::string& line, std::int64_t number) {
  const std::string where = fmt::format("stdin:{}", number);
  const Json json = parse_json(line, where, {.max_bytes = std::size_t{1} << 30});
  const auto refuse = [&](std::string_view fact) {
    throw Error(ErrorKind::data, "tokenizer", fmt::format("{}: {}", where, fact),
                "give lines as `wmtp tokenizer encode` prints them");
  };
  if (!json.is_object() || !json.contains("ids") || !json["ids"].is_array())
    refuse("no list 'ids'");
  std::vector<TokenId> ids;
  for (const Json& id : json["ids"]) {
    if (!id.is_number_integer() || id < 0 || id > INT32_MAX)
      refuse(fmt::format("'{}' is not a token id", id.dump().substr(0, 40)));
    ids.push_back(id.get<TokenId>());
  }
  return ids;
}

int run_decode(const DecodeFlags& flags, bool json) {
  if (!json) set_standard_output_escape(Escape::nothing);  // the text is the result, byte for byte
  const std::shared_ptr<const Tokenizer> tokenizer = open_tokenizer(flags.tokenizer_path);
  std::string line;
  for (std::int64_t number = 1; std::getline(std::cin, line); ++number) {
    if (line.empty()) continue;
    const std::string text = tokenizer->decode(ids_of_line(line, number), flags.skip_special);
    if (json)
      std::cout << R"({"type":"text","text":)" << json_string(text) << "}\n";
    else
      std::cout << text << (flags.per_line ? "\n" : "");
  }
  return 0;
}

nlohmann::ordered_json optional_id(const std::optional<TokenId>& id) {
  return id ? nlohmann::ordered_json(*id) : nlohmann::ordered_json(nullptr);
}

int inspect_tokenizer(const std::string& path, bool json) {
  const std::shared_ptr<const Tokenizer> tokenizer = open_tokenizer(path);
  const tokenizer::TokenizerDescription description = tokenizer->describe();
  nlohmann::ordered_json added = nlohmann::ordered_json::array();
  for (const auto& token : description.added_tokens)
    added.push_back({{"id", token.id}, {"content", token.content}, {"special", token.special}});
  const nlohmann::ordered_json fields{{"kind", tokenizer->kind()},
                                      {"vocabulary", tokenizer->vocab_size()},
                                      {"bos", optional_id(tokenizer->bos_id())},
                                      {"eos", optional_id(tokenizer->eos_id())},
                                      {"adds_bos", tokenizer->adds_bos()},
                                      {"split_pattern", description.split_pattern},
                                      {"splitter", description.splitter},
                                      {"fingerprint", tokenizer->fingerprint()},
                                      {"added_tokens", added}};
  if (json) {
    emit_json("result", fields);
    return 0;
  }
  for (const auto& [key, value] : fields.items())
    if (key != "added_tokens")
      std::cout << fmt::format("{:<14} {}\n", key,
                               value.is_string() ? value.get<std::string>() : value.dump());
  std::cout << fmt::format("added tokens   {}\n", description.added_tokens.size());
  for (const auto& token : description.added_tokens)
    std::cout << fmt::format("  {:>8} {}{}\n", token.id, json_string(token.content),
                             token.special ? "  special" : "");
  return 0;
}

void add_encode(CLI::App& group, Session& session) {
  const auto flags = std::make_shared<EncodeFlags>();
  CLI::App* command =
      group.add_subcommand("encode", "Text to token ids, one JSON line per document");
  command->footer(
      "  wmtp tokenizer encode --tokenizer models/llama book.txt\n"
      "  wmtp tokenizer encode --tokenizer demo --per-line --pieces lines.txt");
  command->add_option("--tokenizer", flags->tokenizer_path, kTokenizerHelp)->required();
  command->add_option("FILE", flags->files, "Text files, each one document; stdin if none (or -)");
  command->add_flag("--per-line", flags->per_line, "Each line is a document");
  command->add_flag("--add-special", flags->add_special,
                    "Add BOS/EOS as the tokenizer's post-processor does");
  command->add_flag("--allow-special", flags->allow_special,
                    "Special tokens in the text become their ids");
  command->add_flag("--pieces", flags->pieces, "Also print each token as the tokenizer spells it");
  command
      ->add_option("--time-only", flags->num_timed_repeats,
                   "Print the seconds of N encoding passes")
      ->group("");
  command->callback([flags, &session] {
    if (flags->files.empty()) flags->files = {"-"};
    session.run = [flags] { return run_encode(*flags); };
  });
}

void add_decode(CLI::App& group, Session& session) {
  const auto flags = std::make_shared<DecodeFlags>();
  CLI::App* command =
      group.add_subcommand("decode", "Lines of `tokenizer encode` on stdin back to text");
  command->footer(
      "  wmtp tokenizer decode --tokenizer models/llama < ids.jsonl\n"
      "  wmtp tokenizer decode --tokenizer demo --per-line --skip-special < ids.jsonl");
  command->add_option("--tokenizer", flags->tokenizer_path, kTokenizerHelp)->required();
  command->add_flag("--per-line", flags->per_line, "A line feed after each document");
  command->add_flag("--skip-special", flags->skip_special, "Leave special tokens out");
  command->callback([flags, &session] {
    session.run = [flags, &session] { return run_decode(*flags, session.json); };
  });
}

void add_inspect(CLI::App& group, Session& session) {
  const auto path = std::make_shared<std::string>();
  CLI::App* command =
      group.add_subcommand("inspect", "Kind, vocabulary, special tokens and split pattern");
  command->footer(
      "  wmtp tokenizer inspect --tokenizer models/llama\n"
      "  wmtp --json tokenizer inspect --tokenizer models/llama/tokenizer.model");
  command->add_option("--tokenizer", *path, kTokenizerHelp)->required();
  command->callback([path, &session] {
    session.run = [path, &session] { return inspect_tokenizer(*path, session.json); };
  });
}

}  // namespace

void add_tokenizer(CLI::App& app, Session& session) {
  CLI::App* group =
      app.add_subcommand("tokenizer", "Encode, decode and inspect with a model's tokenizer");
  group->group(kDataGroup);
  group->footer(
      "  wmtp tokenizer encode --tokenizer models/llama book.txt\n"
      "  wmtp tokenizer decode --tokenizer models/llama < ids.jsonl\n"
      "  wmtp tokenizer inspect --tokenizer models/llama");
  group->require_subcommand(1);
  add_encode(*group, session);
  add_decode(*group, session);
  add_inspect(*group, session);
}

}  // namespace wmtp::cli

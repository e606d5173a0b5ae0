#include <fmt/format.h>

#include <iostream>
#include <memory>

#include "wmtp/cli/commands/data.h"
#include "wmtp/data/demo_corpus.h"

namespace wmtp::cli {
namespace {

struct DemoFlags {
  std::string out;
  std::uint64_t seed = 1;
  std::size_t num_rows = 2000;
};

int run_demo(const DemoFlags& flags, bool json) {
  const data::DemoFiles files = data::write_demo_corpus(flags.out, flags.seed, flags.num_rows);
  if (json) {
    emit_json("result", {{"train", files.train.string()},
                         {"validation", files.validation.string()},
                         {"text", files.text.string()},
                         {"tokenizer", files.tokenizer.string()},
                         {"train_rows", files.num_train_rows},
                         {"validation_rows", files.num_validation_rows},
                         {"vocab_size", files.vocab_size}});
    return 0;
  }
  std::cout << fmt::format("{} ({} rows)\n{} ({} rows)\n{}\n{} (at most {} tokens)\n",
                           files.train.string(), files.num_train_rows, files.validation.string(),
                           files.num_validation_rows, files.text.string(), files.tokenizer.string(),
                           files.vocab_size);
  return 0;
}

}  // namespace

void add_data_demo(CLI::App& data, Session& session) {
  const auto flags = std::make_shared<DemoFlags>();
  CLI::App* command = data.add_subcommand(
      "demo", "Write a small corpus of right and wrong solutions and its tokenizer");
  command->footer(
      "  wmtp data demo --out demo\n"
      "  wmtp data demo --out small --rows 200 --seed 7");
  command->add_option("--out", flags->out, "Folder to write to")->required();
  command->add_option("--seed", flags->seed, "Another seed gives another corpus");
  command->add_option("--rows", flags->num_rows, "Rows of the training file")
      ->check(CLI::Range(8, 100000));
  command->callback([flags, &session] {
    session.run = [flags, &session] { return run_demo(*flags, session.json); };
  });
}

}  // namespace wmtp::cli

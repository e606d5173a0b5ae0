#include "wmtp/cli/commands/data.h"

#include "wmtp/cli/commands/named_tokenizer.h"

namespace wmtp::cli {

void add_data(CLI::App& app, Session& session) {
  CLI::App* data =
      app.add_subcommand("data", "Index, tokenize, inspect and generate training data");
  data->group(kDataGroup);
  data->require_subcommand(1);
  data->footer(
      "  wmtp data demo --out demo --seed 1 --rows 2000\n"
      "  wmtp data index demo/train.jsonl --tokenizer demo\n"
      "  wmtp data inspect --config run.yaml --sample 3");
  add_data_index(*data, session);
  add_data_tokenize(*data, session);
  add_data_inspect(*data, session);
  add_data_demo(*data, session);
}

std::shared_ptr<const tokenizer::Tokenizer> policy_tokenizer(const config::Config& config) {
  const auto& policy = config.models.policy;
  return open_tokenizer((policy.tokenizer_path ? *policy.tokenizer_path : policy.path).text);
}

}  // namespace wmtp::cli

// The parts of `wmtp data`: each adds its subcommand to the parent.
#pragma once
#include <memory>

#include "wmtp/cli/command.h"
#include "wmtp/config/config.h"
#include "wmtp/tokenizer/tokenizer.h"

namespace wmtp::cli {

void add_data_index(CLI::App& data, Session& session);
void add_data_tokenize(CLI::App& data, Session& session);
void add_data_inspect(CLI::App& data, Session& session);
void add_data_demo(CLI::App& data, Session& session);

// models.policy.tokenizer_path, else the model's folder.
std::shared_ptr<const tokenizer::Tokenizer> policy_tokenizer(const config::Config& config);

}  // namespace wmtp::cli

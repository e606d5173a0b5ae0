#include "wmtp/cli/commands/named_tokenizer.h"

#include <filesystem>

#include "wmtp/comm/launch/launch_env.h"
#include "wmtp/models/remote/model_copy.h"

namespace wmtp::cli {

std::shared_ptr<const tokenizer::Tokenizer> open_tokenizer(const std::string& name) {
  std::error_code ignored;
  // A single word is no name of the hub: load_tokenizer says better what should be there.
  if (std::filesystem::exists(name, ignored) || name.find('/') == name.npos)
    return tokenizer::load_tokenizer(name);
  return tokenizer::load_tokenizer(models::locate_tokenizer(name, comm::process_environment()));
}

}  // namespace wmtp::cli

// From the flags of `wmtp init` to what it proposes from: the model opened, the data looked at.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "wmtp/cli/init/proposal.h"
#include "wmtp/tokenizer/tokenizer.h"

namespace wmtp::cli {

struct InitFlags {
  std::string stage, preset, model, tokenizer, critic, reference, name, out;
  std::vector<std::string> data, validation;
  bool force = false, list = false;

  const std::string& model_name() const { return preset.empty() ? model : preset; }
};

// Error config for what is no model: a folder without a configuration, a name that is no preset.
void require_model(const std::string& name);
// Error config or data for files that are not there or of no known form.
void require_data(const std::string& pattern);

// For a model without one: the folder of the data where that has a tokenizer, else empty.
std::string tokenizer_beside(const std::vector<std::string>& data);
// <stage>-<data>: the folder's name for files that are called train or the like.
std::string usual_name(const std::string& stage, const std::vector<std::string>& data);

using OpenTokenizer =
    std::function<std::shared_ptr<const tokenizer::Tokenizer>(const std::string& name)>;

// BLOCKS. REQUIRES every flag that the stage needs. Errors as above, and for flags that the stage
// has no use for. `open` is for tokenizers that the user named.
InitInputs gather_inputs(const InitFlags& flags, const OpenTokenizer& open);

}  // namespace wmtp::cli

#include "wmtp/models/token_ids.h"

#include <algorithm>

#include "wmtp/core/file.h"
#include "wmtp/core/log.h"
#include "wmtp/model/hf_config.h"

namespace wmtp::models {

std::string read_generation_config(const std::filesystem::path& path) {
  constexpr std::size_t kMaxBytes = std::size_t{1} << 20;
  return path.empty() ? std::string() : read_file(path, kMaxBytes, ErrorKind::data);
}

void resolve_token_ids(model::ModelConfig& config, const std::filesystem::path& generation_config,
                       const tokenizer::Tokenizer* tokenizer) {
  const model::GenerationIds base =
      generation_config.empty()
          ? model::GenerationIds{}
          : model::parse_generation_ids(read_generation_config(generation_config),
                                        generation_config.string());
  const auto of_tokenizer = [tokenizer](auto id) -> std::optional<std::int64_t> {
    return tokenizer ? (tokenizer->*id)() : std::nullopt;
  };
  const auto bos = of_tokenizer(&tokenizer::Tokenizer::bos_id);
  const auto eos = of_tokenizer(&tokenizer::Tokenizer::eos_id);
  const auto pad = of_tokenizer(&tokenizer::Tokenizer::pad_id);
  if (base.bos || bos) config.bos_id = base.bos ? base.bos : bos;
  if (base.pad || pad) config.pad_id = base.pad ? base.pad : pad;
  if (!base.eos.empty())
    config.eos_ids = base.eos;
  else if (eos)
    config.eos_ids = {*eos};
  if (eos && std::ranges::find(config.eos_ids, *eos) == config.eos_ids.end())
    log::warn("export",
              "{} does not stop at token {}, the tokenizer's end of sequence; exports keep its ids",
              generation_config.string(), *eos);
}

}  // namespace wmtp::models

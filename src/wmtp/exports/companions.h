// The files of an export beside its weights: configuration, tokenizer, model card, mark.
#pragma once
#include <filesystem>
#include <string>

#include "wmtp/exports/plan.h"

namespace wmtp::exports {

// Into `folder`, which has none of them yet. BLOCKS until they are on the disk.
void write_companions(const std::filesystem::path& folder, const ExportSpec& spec,
                      const ExportPlan& plan);

// README.md, with the front matter that model hubs read.
std::string model_card_text(const ExportSpec& spec);

}  // namespace wmtp::exports

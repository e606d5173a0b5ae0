// What a rehearsal changes of its run's configuration: one step, one save, nothing kept or sent.
#pragma once
#include <filesystem>

#include "wmtp/config/load.h"

namespace wmtp::run {

// Which data a rehearsal reads.
enum class RehearsalData {
  beginnings,  // excerpts of the files (data/excerpt.h)
  whole,       // the files, indexed and tokenized below the rehearsal's folder
  as_is        // and nothing is built: dataset.auto_cache is off
};

// Where the excerpts of both sets lie below the rehearsal's folder.
std::filesystem::path train_excerpts(const std::filesystem::path& folder);
std::filesystem::path validation_excerpts(const std::filesystem::path& folder);

// `resolved` with all that a run writes below `folder`. Its keys, which checkpoints keep as
// config.yaml, stay the run's. REQUIRES the excerpts where `data` are those.
config::ResolvedConfig rehearsal_config(const config::ResolvedConfig& resolved,
                                        const std::filesystem::path& folder, RehearsalData data,
                                        int world);

}  // namespace wmtp::run

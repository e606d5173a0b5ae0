// What a finished run leaves for other tools: <run_dir>/final.
#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "wmtp/comm/session.h"
#include "wmtp/run/trainer.h"

namespace wmtp::run {

// Whether export_final() may put its folder where it would, asked before there is anything to
// export: Error config names what is in the way. Nothing where none is wanted.
void require_place_of_final(const config::Config& config);

// checkpoint.export_on_finish: whole weights (all heads kept) or adapters, with the value head
// where there is one. Gathered to rank 0 unit by unit. COLLECTIVE, BLOCKS. Nothing where none is
// wanted. `configuration`: the resolved YAML, for the model card.
std::optional<std::filesystem::path> export_final(Trainer& trainer,
                                                  const std::string& configuration,
                                                  comm::ProcessGroupSession& session);

}  // namespace wmtp::run

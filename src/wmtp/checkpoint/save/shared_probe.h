// Whether all ranks see the same folder: found out at the start, not in the first save.
#pragma once
#include "wmtp/checkpoint/save/save.h"

namespace wmtp::checkpoint {

// COLLECTIVE through the vote. BLOCKS. Rank 0 writes a file into save_dir, the others look for it,
// rank 0 removes it. A rank that does not see it is ErrorKind::config on all, naming the ranks.
void probe_shared_folder(const SaveContext& context);

}  // namespace wmtp::checkpoint

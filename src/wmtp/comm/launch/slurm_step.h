// Private to comm/: what the variables of a Slurm step say.
#pragma once
#include <string>
#include <vector>

#include "wmtp/comm/launch/env_reader.h"

namespace wmtp::comm {

// A step that srun started, and not the batch shell or an interactive one.
bool is_slurm_step(EnvReader& env);
// Where rank 0 of the step runs. Error config without a node list.
std::string first_slurm_node(EnvReader& env);
// Where its store may serve, to be tried in this order: of job and step number.
std::vector<int> slurm_ports(EnvReader& env);

}  // namespace wmtp::comm

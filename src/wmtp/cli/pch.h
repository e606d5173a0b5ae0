// The precompiled header of the commands: LibTorch's, and CLI11 and JSON, which all of them use.
#pragma once
#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "wmtp/pch.h"

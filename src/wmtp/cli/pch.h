// The precompiled header of the commands: LibTorch's, and CLI11, which all of them use.
#pragma once
#include <CLI/CLI.hpp>

#include "wmtp/pch.h"

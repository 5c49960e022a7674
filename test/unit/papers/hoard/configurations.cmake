# SPDX-License-Identifier: MIT
# Options that the tests common to all papers run with, too.
set(hoard_configurations
  "lookup:mask,strict:true"
  "release:true,k:0,f:1/16,peaks:true,strict:true"
  "assign:adaptive,superblock:64K,b:2,heaps:2,strict:true"
  "assign:processor,lookup:mask,release:true,superblock:4K,f:3/4,strict:true")

# SPDX-License-Identifier: MIT
# Options that the tests common to all papers run with, too.
set(cif_configurations
  "array:ciu,colour:none,align:false,strict:true"
  "superblock:1M,colours:64,colour:after,classes:halves,array:multiple,strict:true"
  "line:16,page:2K,classes:odd,k:0,f:1/2,release:true,strict:true"
  "superblock:16K,classes:adjusted,heaps:1,f:1/16,colours:4096,strict:true")

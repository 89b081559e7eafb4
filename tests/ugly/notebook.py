#!/usr/bin/env python
# coding: utf-8

# # A notebook
# with some *text*

# In[1]:


import torch
get_ipython().run_line_magic('matplotlib', 'inline') if 'get_ipython' in globals() else None


# In[2]:


from torch import nn
net = nn.Linear(2, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)


# In[ ]:


for epoch in range(2):
    loss = net(torch.ones(1, 2)).sum()
    opt.zero_grad(); loss.backward(); opt.step()
    
    print(epoch, loss.item())


# In[4]:


loss

